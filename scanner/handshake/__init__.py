"""The handshake stage: completes handshakes with a share of the names."""
