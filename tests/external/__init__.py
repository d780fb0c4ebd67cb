"""Tests of other scanners as engines."""
