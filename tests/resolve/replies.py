"""A host on loopback that answers datagrams as a function decides."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager


@contextmanager
def replying(reply: Callable[[bytes], Iterable[bytes]]) -> Iterator[int]:
    """Answer each datagram with the datagrams from `reply`; the block gets the port."""
    stop = threading.Event()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        server.bind(("127.0.0.1", 0))
        server.settimeout(0.05)

        def serve() -> None:
            while not stop.is_set():
                try:
                    query, client = server.recvfrom(4096)
                except TimeoutError:
                    continue
                for answer in reply(query):
                    server.sendto(answer, client)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            stop.set()
            thread.join()
