"""Checks on a machine before it measures: `firstflight doctor`, and before a campaign's first fetch."""
