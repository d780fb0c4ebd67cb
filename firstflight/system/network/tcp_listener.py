"""Opens listening TCP sockets, with one sentence per error, and formats addresses."""

from __future__ import annotations

import os
import socket

from firstflight.errors import UsageError


def host_and_port(host: str, port: int) -> str:
    """Return HOST:PORT as in URLs, with brackets around an IPv6 address (RFC 3986, 3.2.2)."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def listener(host: str, port: int) -> socket.socket:
    """Return a listening TCP socket (port 0: any free port). Raise UsageError if that fails."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=128)
    except (OSError, OverflowError) as error:
        # getaddrinfo has its own error numbers and messages.
        system = isinstance(error, OSError) and not isinstance(error, socket.gaierror) and error.errno
        reason = os.strerror(system) if system else getattr(error, "strerror", None) or str(error)
        raise UsageError(f"cannot listen on {host} port {port}: {reason}") from error
