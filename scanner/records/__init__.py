"""Converts the prober's segments to the record files of a stage."""
