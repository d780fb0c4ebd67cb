"""What the lab uses of Linux: programs, processes, namespaces, mounts, links."""
