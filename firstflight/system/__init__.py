"""Access to the operating system: files, locks, child processes, terminal, binaries."""
