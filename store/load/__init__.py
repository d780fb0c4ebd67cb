"""Loads record files: files checked, their units, derived tables, the run's own row."""
