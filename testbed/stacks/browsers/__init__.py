"""Browsers as clients of the testbed: a file for each, and what they share (session)."""
