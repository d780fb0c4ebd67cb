"""Measures: tables and figures from the rows and captures of an experiment."""
