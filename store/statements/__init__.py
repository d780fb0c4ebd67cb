"""Parses SQL statements and decides which statements a client may send."""
