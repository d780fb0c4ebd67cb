"""Addresses: a server's URL and password, and the file with the address of a served store."""
