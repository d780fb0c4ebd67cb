"""Probes: names to addresses, and the first answer of QUIC servers."""
