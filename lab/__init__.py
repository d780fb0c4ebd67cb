"""A small private Internet: namespaces, links, real servers, and the ground truth about them.

launch, supervisor, control     starting and stopping the lab, and requests to it
enter, forward                  a program on a host, a host's port on the machine
state                           the folder with the lab's files
declared/                       the hosts, names and sites that internet.toml declares
expected/                       the results that measurements must have
hosts/                          the servers: names, lists, web sites, QUIC servers
as_data/                        routing tables and AS organisations, published as on the Internet
system/                         programs, processes, namespaces, mounts and links
stacks/                         a folder per QUIC stack
link/, listener/                Rust: the link emulator; sockets of the servers
site/                           a whole site in the lab
"""
