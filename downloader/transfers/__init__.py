"""Transfers at a vantage point: a client per option set, its process, and the check of HTTP/3."""
