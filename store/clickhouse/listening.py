"""The port of `store serve`, and its login. This module does not import the engine."""

from __future__ import annotations

import hmac
import ipaddress
import socket
import ssl
from dataclasses import dataclass, field
from pathlib import Path

from firstflight.errors import UsageError
from firstflight.system.network import tcp_listener
from store.protocol.packets import Hello
from store.protocol.refusal import AUTHENTICATION_FAILED, Refusal


@dataclass(frozen=True)
class Access:
    """Who may log in: everyone if there is no password. `tls` encrypts connections.

    `loader` and `loader_password`: a second user, who can load rows, but not change or drop tables.
    """

    user: str = "default"
    password: str | None = field(default=None, repr=False)
    read_only: bool = False
    tls: ssl.SSLContext | None = None
    loader: str | None = None
    loader_password: str = field(default="", repr=False)

    def check(self, hello: Hello) -> bool:
        """Return whether the user may only load; Refusal unless user and password match."""
        if self.password is None:
            return False
        if self.loader is not None and _matches(hello, self.loader, self.loader_password):
            return True
        if not _matches(hello, self.user, self.password):
            raise Refusal(
                AUTHENTICATION_FAILED,
                f"{hello.user}: Authentication failed: password is incorrect, or there is no such user.",
            )
        return False


def _matches(hello: Hello, user: str, password: str) -> bool:
    """Return whether a client sent this user and password; the time of the comparison reveals neither."""
    same_user = hmac.compare_digest(hello.user.encode(), user.encode())
    return hmac.compare_digest(hello.password.encode(), password.encode()) and same_user


def needs_password(host: str) -> bool:
    """Return whether other machines can reach `host`."""
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host != "localhost"


def tls_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """Return a TLS context for a certificate chain and the key, both PEM; UsageError if they are unusable."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"cannot use the certificate {certificate} with the key {key}: {error}") from error
    return context


def listener(host: str, port: int, access: Access) -> socket.socket:
    """Return the listening socket (port 0: a free one).

    UsageError if listening fails, or if other machines can reach `host` and there is no password.
    """
    if needs_password(host) and not access.password:
        raise UsageError(f"others can reach {host}: --no-password is only for loopback; remove it")
    return tcp_listener.listener(host, port)


def address_of(listening: socket.socket) -> tuple[str, int]:
    """Return a listening socket's host and port."""
    host, port = listening.getsockname()[:2]
    return str(host), int(port)
