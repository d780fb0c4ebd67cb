"""The parts of Linux that the lab uses: programs, processes, namespaces, mounts, links."""
