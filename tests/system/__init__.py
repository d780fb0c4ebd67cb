"""Files, locks, processes, progress and network namespaces (firstflight/system)."""
