"""Kernel sandbox for a process that runs the engine: Landlock for files, seccomp for sockets."""
