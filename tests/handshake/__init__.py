"""The handshake stage and its engine."""
