"""Captures of real stacks, made by tcpdump in namespaces: how those in tests/fixtures were recorded."""
