"""Browsers as clients of the testbed: a module for each, and shared code (session)."""
