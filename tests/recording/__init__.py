"""Records captures of real stacks by tcpdump in namespaces, such as those in tests/fixtures."""
