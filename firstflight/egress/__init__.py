"""Egress policy for everything that Python sends; the prober implements the same rules in Rust."""
