"""A port for a server that another process binds."""

from __future__ import annotations

import secrets
import socket
from contextlib import suppress


def free_port() -> int:
    """Return a port that is free on all IPv4 and IPv6 addresses, for UDP and TCP.

    It is below 32768, where Linux's ports for clients begin: a client of another test cannot take it before
    the server binds it.
    """
    while True:
        port = 20_000 + secrets.randbelow(12_768)
        with suppress(OSError):
            for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
                with socket.socket(socket.AF_INET6, kind) as both:
                    both.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
                    both.bind(("::", port))
            return port
