"""Captures into records."""
