"""The dissector: CPU time and memory on recorded handshakes, compared with tshark."""
