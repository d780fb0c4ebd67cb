"""Records captures of real stacks with tcpdump in network namespaces, such as those in tests/fixtures."""
