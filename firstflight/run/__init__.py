"""A run on disk: its key, layout, settings in force, reports, provenance and clock."""
