"""What the operating system gives: files, locks, child processes, terminal, binaries."""
