"""Queries a DNS resolver from Python, a few names at a time: queries, answers, rate limit, rows."""
