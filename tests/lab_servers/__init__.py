"""The lab's QUIC servers, started on loopback and tested with a client that shares no code with the tools."""
