"""Shared parts of the measures for a server's sending pattern (paper 001)."""
