"""Queries a DNS resolver: queries, answers, rate limit, and the record files of the answers."""
