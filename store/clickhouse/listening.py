"""The port of `store serve`, and its login. This module does not import the engine."""

from __future__ import annotations

import hmac
import ipaddress
import socket
import ssl
from dataclasses import dataclass, field
from pathlib import Path

from firstflight.errors import UsageError
from firstflight.system import tcp_listener
from store.protocol.packets import Hello
from store.protocol.refusal import AUTHENTICATION_FAILED, Refusal


@dataclass(frozen=True)
class Access:
    """Who may log in: everyone if there is no password. `tls` encrypts connections."""

    user: str = "default"
    password: str | None = field(default=None, repr=False)
    read_only: bool = False
    tls: ssl.SSLContext | None = None

    def check(self, hello: Hello) -> None:
        """Raise Refusal unless user and password match."""
        if self.password is None:
            return
        same_user = hmac.compare_digest(hello.user.encode(), self.user.encode())
        if not (hmac.compare_digest(hello.password.encode(), self.password.encode()) and same_user):
            raise Refusal(
                AUTHENTICATION_FAILED,
                f"{hello.user}: Authentication failed: password is incorrect, or there is no such user.",
            )


def needs_password(host: str) -> bool:
    """Return whether other machines can reach `host`."""
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host != "localhost"


def tls_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """Return a TLS context for a certificate chain and its key, both PEM; UsageError if they are unusable."""
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
    """Return host and port of a listening socket."""
    host, port = listening.getsockname()[:2]
    return str(host), int(port)
