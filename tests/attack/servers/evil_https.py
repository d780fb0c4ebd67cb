"""A real HTTPS server on loopback that sends the bytes that a test chooses."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from requests.adapters import HTTPAdapter

from lab.hosts import certificates

AnswerFunction = Callable[[str], Iterable[bytes]]
MOST_ANSWERED = 64 << 20  # sent at most to a client that never stops reading


@dataclass
class EvilHost:
    """Its address and authority, the requested paths in order, and the number of bytes sent."""

    url: str
    authority: Path
    asked: list[str] = field(default_factory=list)
    sent: int = 0


def whole(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    """Return an answer with the length and a Date."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def endless(piece: bytes, *headers: str) -> Iterator[bytes]:
    """An answer without length that continues until the client disconnects or MOST_ANSWERED is reached."""
    yield ("\r\n".join(["HTTP/1.1 200 OK", *headers]) + "\r\n\r\n").encode()
    for _ in range(MOST_ANSWERED // len(piece)):
        yield piece


@contextmanager
def serving(folder: Path, answer: AnswerFunction, *names: str) -> Iterator[EvilHost]:
    """Run a host that answers a request for PATH with `answer(PATH)`, then closes the connection."""
    authority = certificates.make_authority(folder)
    issued = certificates.issue(authority, "evil", ["127.0.0.1", *names])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.chain, issued.key)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host = EvilHost(f"https://127.0.0.1:{listener.getsockname()[1]}", authority.path)
        thread = threading.Thread(target=_serve, args=(listener, context, answer, host), daemon=True)
        thread.start()
        try:
            yield host
        finally:
            listener.shutdown(socket.SHUT_RDWR)
    thread.join(timeout=30)


def _serve(listener: socket.socket, context: ssl.SSLContext, answer: AnswerFunction, host: EvilHost) -> None:
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        with suppress(OSError), context.wrap_socket(client, server_side=True) as tls:
            request = b""
            while b"\r\n\r\n" not in request and (piece := tls.recv(65536)):
                request += piece
            path = request.split(b" ", 2)[1].decode()
            host.asked.append(path)
            for piece in answer(path):
                tls.sendall(piece)
                host.sent += len(piece)


class InPlaceOf(HTTPAdapter):
    """Sends requests for a public host to an evil one with a certificate for that name, as a hostile name
    server would."""

    def __init__(self, name: str, host: EvilHost) -> None:
        self._name, self._url = name, host.url
        super().__init__()

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Set the name that the certificate must have."""
        kwargs |= {"server_hostname": self._name, "assert_hostname": self._name}
        super().init_poolmanager(*args, **kwargs)

    def send(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        """Send to the evil host's address."""
        request.url = self._url + request.path_url
        return super().send(request, *args, **kwargs)
