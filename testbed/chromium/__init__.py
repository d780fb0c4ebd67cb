"""Chromium as a client of the testbed."""
