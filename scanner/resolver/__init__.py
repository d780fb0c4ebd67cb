"""Queries a DNS resolver from Python, for few names: queries, answers, rate limit, rows."""
