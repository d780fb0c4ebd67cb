"""Converts captures to qlog, the IETF's log format of QUIC endpoints, and reads qlog files."""
