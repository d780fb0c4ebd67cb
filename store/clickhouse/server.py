"""The server of `firstflight store serve`: an embedded store for several concurrent programs."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
import time
from pathlib import Path

from store.clickhouse.admission import Admission
from store.clickhouse.connection import HELLO_S, NativeConnection
from store.clickhouse.counts import ServerCounts
from store.clickhouse.listening import Access
from store.clickhouse.session import ClientSession
from store.engine import access
from store.engine.session import EngineError, EngineSession
from store.protocol.packets import Hello
from store.protocol.refusal import TOO_MANY, Refusal
from store.sql import literal

MAX_CLIENTS = 100
# If a client's host disappears, the connection is closed after this time, idle or not.
_DEAD_AFTER_S = 120
_PAUSE_S = 0.05
_LOOK_S = 0.5
_EXPIRE_EVERY_S = 0.25


class NativeServer:
    """Serves the store in `folder` until `stop`. The caller holds the folder's lock."""

    def __init__(self, folder: Path, database: str, listener: socket.socket, who: Access) -> None:
        """Open the store; `stop` closes `listener`. EngineError if the store cannot be opened."""
        self._folder = folder
        self._database = database
        self._access = who
        self._listener = listener
        # A signal that arrives between Python's last check and the system call does not interrupt `accept`.
        listener.settimeout(_LOOK_S)
        self._control = EngineSession(str(folder), access.SERVER)
        self._control_lock = threading.Lock()
        self._control.run(f"CREATE DATABASE IF NOT EXISTS {database}")
        version, timezone = self._control.run("SELECT version(), timezone()").decode().split()
        major, minor, patch = (int(part) for part in version.split(".")[:3])
        self._version, self._timezone = (major, minor, patch), timezone
        self._connections: dict[int, tuple[NativeConnection, threading.Thread]] = {}
        self._admission = Admission(HELLO_S)
        self._clients: set[int] = set()
        self._changing = threading.Lock()
        self._stopping = False
        self.counts = ServerCounts()

    def serve(self) -> None:
        """Accept clients until `stop`, then end their queries and wait for their threads."""
        threading.Thread(target=self._expire, name="admission", daemon=True).start()
        for number in itertools.count(1):
            try:
                sock, _ = self._listener.accept()
            except TimeoutError:
                continue
            except OSError:
                if self._stopping:
                    break
                time.sleep(_PAUSE_S)  # too many open files, for example
                continue
            self._admission.enter(number, sock)
            threading.Thread(target=self._serve_client, args=(sock, number), daemon=True).start()
        with self._changing:
            open_connections = list(self._connections.values())
        for connection, _ in open_connections:
            connection.end()
        for _, thread in open_connections:
            while thread.is_alive():
                self._kill_where("1")
                thread.join(_PAUSE_S)
        self._control.close()

    def stop(self) -> None:
        """End `serve`. Safe to call from a signal handler."""
        self._stopping = True
        # Wakes `accept`; `close` does not.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _expire(self) -> None:
        while not self._stopping:
            self._admission.expire()
            time.sleep(_EXPIRE_EVERY_S)

    def _serve_client(self, sock: socket.socket, number: int) -> None:
        try:
            self._converse(self._secured(sock), number)
        except OSError:  # the TLS handshake failed
            sock.close()
        finally:
            self._admission.leave(number)

    def _converse(self, sock: socket.socket, number: int) -> None:
        connection = NativeConnection(
            sock,
            lambda hello: self._open_session(hello, number),
            lambda: self._kill(_tag(number)),
            self._version,
            self._timezone,
            self.counts,
        )
        with self._changing:
            if self._stopping:
                sock.close()
                return
            self._connections[number] = connection, threading.current_thread()
        self.counts.connected()
        try:
            connection.run()
        finally:
            self.counts.disconnected()
            with self._changing:
                del self._connections[number]
                self._clients.discard(number)

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

    def _open_session(self, hello: Hello, number: int) -> ClientSession:
        try:
            only_loads = self._access.check(hello)
        except Refusal:
            self._admission.wrong_password(number, hello.user)
            raise
        with self._changing:
            if len(self._clients) >= MAX_CLIENTS:
                raise Refusal(TOO_MANY, f"Too many clients: at most {MAX_CLIENTS} at once.")
            self._clients.add(number)
        self._admission.leave(number)
        return ClientSession(
            self._folder,
            hello.database or self._database,
            _tag(number),
            read_only=self._access.read_only,
            only_loads=only_loads,
        )

    def _kill(self, tag: str) -> None:
        comment = "Settings['log_comment']"
        self._kill_where(f"{comment} = {literal(tag)} OR startsWith({comment}, {literal(tag + ' ')})")

    def _kill_where(self, condition: str) -> None:
        with self._control_lock, contextlib.suppress(EngineError):  # the query may have ended already
            self._control.run(f"KILL QUERY WHERE {condition} ASYNC")


def _tag(number: int) -> str:
    return f"firstflight-client-{number}"
