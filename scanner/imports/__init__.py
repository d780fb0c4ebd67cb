"""Converts the output of other scanners to our record kinds."""
