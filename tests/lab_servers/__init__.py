"""The lab's QUIC servers, started on loopback and read by a client that shares no code with the tools."""
