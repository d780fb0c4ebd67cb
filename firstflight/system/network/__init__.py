"""The network of this machine: namespaces, listening sockets, metrics over HTTP, the clock's offset."""
