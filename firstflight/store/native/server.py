"""The server behind `firstflight store serve`: an embedded store for several programs at once."""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import itertools
import os
import socket
import ssl
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from firstflight.errors import UsageError
from firstflight.store.engine import Engine, EngineError, literal
from firstflight.store.native.connection import HELLO_S, Connection
from firstflight.store.native.packets import Hello
from firstflight.store.native.session import Refusal, Session

AUTHENTICATION_FAILED = 516
TOO_MANY = 202
MAX_CLIENTS = 100
# A client whose host is gone is let go after this time, idle or not.
_DEAD_AFTER_S = 120
_PAUSE_S = 0.05


@dataclass(frozen=True)
class Access:
    """Who may come in: anybody if there is no password; `tls` makes connections encrypted."""

    user: str = "default"
    password: str | None = field(default=None, repr=False)
    read_only: bool = False
    tls: ssl.SSLContext | None = None

    def check(self, hello: Hello) -> None:
        """Refusal unless user and password fit."""
        if self.password is None:
            return
        same_user = hmac.compare_digest(hello.user.encode(), self.user.encode())
        if not (hmac.compare_digest(hello.password.encode(), self.password.encode()) and same_user):
            raise Refusal(
                AUTHENTICATION_FAILED,
                f"{hello.user}: Authentication failed: password is incorrect, or there is no such user.",
            )


class NativeServer:
    """Serves the store in `folder`, whose lock the caller holds, until `stop`."""

    def __init__(self, folder: Path, database: str, host: str, port: int, access: Access) -> None:
        """Open the store and the port (0: a free one); UsageError if either cannot be had."""
        self._folder = folder
        self._database = database
        self._access = access
        self._listener = _listener(host, port, access)
        self._control = Engine(str(folder))
        self._control_lock = threading.Lock()
        self._control.run(f"CREATE DATABASE IF NOT EXISTS {database}")
        version, timezone = self._control.run("SELECT version(), timezone()").decode().split()
        major, minor, patch = (int(part) for part in version.split(".")[:3])
        self._version, self._timezone = (major, minor, patch), timezone
        self._connections: dict[int, tuple[Connection, threading.Thread]] = {}
        self._changing = threading.Lock()
        self._stopping = False

    @property
    def address(self) -> tuple[str, int]:
        """Host and port, where it listens."""
        host, port = self._listener.getsockname()[:2]
        return str(host), int(port)

    def serve(self) -> None:
        """Take clients until `stop`, then end their queries and wait for them."""
        for number in itertools.count(1):
            try:
                sock, _ = self._listener.accept()
            except OSError:
                if self._stopping:
                    break
                time.sleep(_PAUSE_S)  # too many open files, for example
                continue
            thread = threading.Thread(target=self._serve_client, args=(sock, number), daemon=True)
            thread.start()
        with self._changing:
            left = list(self._connections.values())
        for connection, _ in left:
            connection.end()
        for _, thread in left:
            while thread.is_alive():
                self._kill_where("1")
                thread.join(_PAUSE_S)
        self._control.close()

    def stop(self) -> None:
        """Let `serve` end; from a signal handler, too."""
        self._stopping = True
        # Wakes `accept`, which closing alone does not.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve_client(self, sock: socket.socket, number: int) -> None:
        try:
            sock = self._secured(sock)
        except OSError:  # no TLS, or none that fits
            sock.close()
            return
        tag = _tag(number)
        connection = Connection(
            sock,
            lambda hello: self._opened(hello, tag),
            lambda: self._kill(tag),
            self._version,
            self._timezone,
        )
        with self._changing:
            if self._stopping:
                sock.close()
                return
            self._connections[number] = connection, threading.current_thread()
        try:
            connection.run()
        finally:
            with self._changing:
                del self._connections[number]

    def _secured(self, sock: socket.socket) -> socket.socket:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _DEAD_AFTER_S // 2)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _DEAD_AFTER_S // 8)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _DEAD_AFTER_S * 1000)
        if self._access.tls is None:
            return sock
        sock.settimeout(HELLO_S)
        return self._access.tls.wrap_socket(sock, server_side=True)

    def _opened(self, hello: Hello, tag: str) -> Session:
        self._access.check(hello)
        with self._changing:
            if len(self._connections) > MAX_CLIENTS:
                raise Refusal(TOO_MANY, f"Too many clients: at most {MAX_CLIENTS} at once.")
        return Session(self._folder, hello.database or self._database, tag, read_only=self._access.read_only)

    def _kill(self, tag: str) -> None:
        comment = "Settings['log_comment']"
        self._kill_where(f"{comment} = {literal(tag)} OR startsWith({comment}, {literal(tag + ' ')})")

    def _kill_where(self, condition: str) -> None:
        with self._control_lock, contextlib.suppress(EngineError):  # it may have ended meanwhile
            self._control.run(f"KILL QUERY WHERE {condition} ASYNC")


def needs_password(host: str) -> bool:
    """Whether others than this machine can reach `host`."""
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host != "localhost"


def tls_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """TLS with a certificate chain and its key, both PEM; UsageError if they cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"cannot use the certificate {certificate} with the key {key}: {error}") from error
    return context


def _listener(host: str, port: int, access: Access) -> socket.socket:
    if needs_password(host) and not access.password:
        raise UsageError(f"others can reach {host}: give a --password-file, or listen on 127.0.0.1")
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=128)
    except (OSError, OverflowError) as error:
        # An address that does not resolve has its own numbers, and words.
        system = isinstance(error, OSError) and not isinstance(error, socket.gaierror) and error.errno
        reason = os.strerror(system) if system else getattr(error, "strerror", None) or str(error)
        raise UsageError(f"cannot listen on {host} port {port}: {reason}") from error


def _tag(number: int) -> str:
    return f"firstflight-client-{number}"
