"""Captures of real stacks, made by tcpdump in namespaces of their own: how the kept ones in tests/fixtures were recorded."""
