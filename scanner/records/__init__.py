"""Converts the prober's segments to a stage's record files."""
