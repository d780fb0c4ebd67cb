"""The kernel's walls around a process that runs the engine: Landlock for files, seccomp for sockets."""
