"""Clients and servers of the testbed, over loopback, and where their programs come from."""
