"""The path between a client and a server inside a guest, and in real time."""
