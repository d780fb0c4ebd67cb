"""What may leave this machine, for all that Python sends; the native prober has the same rules in Rust."""
