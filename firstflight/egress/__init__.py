"""Egress policy for all packets from Python. The prober implements the same rules in Rust."""
