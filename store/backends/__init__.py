"""The two kinds of store: the engine in this process, and a server, with its driver."""
