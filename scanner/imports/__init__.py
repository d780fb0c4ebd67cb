"""Reads what other scanners wrote into our record kinds."""
