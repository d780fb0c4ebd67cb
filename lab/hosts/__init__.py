"""The servers on the lab's hosts: QUIC stacks, names, lists, web sites with files."""
