"""A run on disk: the key, layout, settings in force, reports, provenance and clock."""
