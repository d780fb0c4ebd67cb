"""Computations for the tables: confidence intervals, RFC 9002, declared values of the lab."""
