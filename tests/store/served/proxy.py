"""A TCP proxy that breaks connections at chosen points."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from types import TracebackType


class Proxy:
    """Forwards to a port on this machine. It breaks connections with resets, like a server that restarts."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._ended = False
        self.connections = 0
        self.cuts = 0
        # The remaining bytes from the client or the server, after which all connections break.
        self.left: dict[str, int | None] = {"client": None, "server": None}
        self.bytes = {"client": 0, "server": 0}

    def __enter__(self) -> Proxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def cut(self) -> None:
        """Break all connections."""
        for pair in self._pairs:
            for sock in pair:
                with contextlib.suppress(OSError):
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    sock.shutdown(socket.SHUT_RDWR)
        self._pairs.clear()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            try:
                server = socket.create_connection(("127.0.0.1", self._to))
            except OSError:
                client.close()
                continue
            self._pairs.append((client, server))
            if self._ended:  # since it was accepted; `__exit__` may not have seen it
                self.cut()
                return
            for source, sink, name in (
                (client, server, "client"),
                (server, client, "server"),
            ):
                threading.Thread(target=self._forward, args=(source, sink, name), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket, name: str) -> None:
        """Forward the bytes of `name`."""
        with contextlib.suppress(OSError):
            while data := source.recv(16384):
                self.bytes[name] += len(data)
                left = self.left[name]
                if left is not None:
                    if len(data) >= left:
                        self.left[name] = None
                        sink.sendall(data[:left])
                        self.cuts += 1
                        self.cut()
                        return
                    self.left[name] = left - len(data)
                sink.sendall(data)
        for sock in (source, sink):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
