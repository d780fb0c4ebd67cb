"""qlog, the IETF's log format of QUIC endpoints: written from captures."""
