"""Resolves names and probes QUIC servers for their first answer."""
