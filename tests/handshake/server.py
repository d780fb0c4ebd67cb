"""A server of HTTP/3 by aioquic: `python -m tests.handshake.server PORT CHAIN KEY REQUESTS`.

Prints `READY` and its port, which it chooses if PORT is 0.

The first label of the authority selects the answer to a request (MODES). The server appends each request's
header section to the file REQUESTS.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path

from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.asyncio.server import serve
from aioquic.buffer import encode_uint_var
from aioquic.h3.connection import H3_ALPN, FrameType, H3Connection, encode_frame
from aioquic.h3.events import HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import ProtocolNegotiated, QuicEvent
from aioquic.tls import SessionTicket

AnswerFunction = Callable[[H3Connection, QuicConnection, int], None]
PLAIN = [(b":status", b"200"), (b"server", b"plain/1"), (b"cf-ray", b"8f3a1b2c3d4e5f60-FRA")]


def _plain(http: H3Connection, _quic: QuicConnection, stream: int) -> None:
    http.send_headers(stream, PLAIN, end_stream=True)


def _early(http: H3Connection, _quic: QuicConnection, stream: int) -> None:
    http.send_headers(stream, [(b":status", b"103"), (b"link", b"</a.css>")])
    http.send_headers(stream, [(b":status", b"204"), (b"x-amz-cf-pop", b"HAM50-P2")], end_stream=True)


def _redirect(http: H3Connection, _quic: QuicConnection, stream: int) -> None:
    http.send_headers(
        stream, [(b":status", b"301"), (b"location", b"https://elsewhere.test/")], end_stream=True
    )


def _large(http: H3Connection, _quic: QuicConnection, stream: int) -> None:
    http.send_headers(stream, [*PLAIN, (b"x-large", b"x" * 50_000)], end_stream=True)


def _too_large(_http: H3Connection, quic: QuicConnection, stream: int) -> None:
    # Announces a header section of 10 MB and sends a part of it.
    quic.send_stream_data(
        stream, encode_uint_var(FrameType.HEADERS) + encode_uint_var(10_000_000) + b"\0" * 200_000
    )


def _content(http: H3Connection, quic: QuicConnection, stream: int) -> None:
    http.send_headers(stream, PLAIN)
    quic.send_stream_data(stream, encode_frame(FrameType.DATA, bytes(1_000_000)), end_stream=True)


def _trailers(http: H3Connection, _quic: QuicConnection, stream: int) -> None:
    http.send_headers(stream, PLAIN)
    http.send_headers(stream, [(b"x-trailer", b"1")], end_stream=True)


def _reset(_http: H3Connection, quic: QuicConnection, stream: int) -> None:
    quic.reset_stream(stream, 0x10C)


def _silent(_http: H3Connection, _quic: QuicConnection, _stream: int) -> None:
    pass


def _empty(_http: H3Connection, quic: QuicConnection, stream: int) -> None:
    quic.send_stream_data(stream, b"", end_stream=True)


def _dynamic(_http: H3Connection, quic: QuicConnection, stream: int) -> None:
    # Required Insert Count 1: a table that the client has not (RFC 9204 4.5.1).
    quic.send_stream_data(stream, encode_frame(FrameType.HEADERS, b"\x02\x00\x80"), end_stream=True)


def _forbidden(_http: H3Connection, quic: QuicConnection, stream: int) -> None:
    quic.send_stream_data(stream, encode_frame(FrameType.SETTINGS, b""), end_stream=True)


def _close(_http: H3Connection, quic: QuicConnection, _stream: int) -> None:
    quic.close(error_code=0x105, reason_phrase="enough")


MODES: dict[str, AnswerFunction] = {
    "plain": _plain,
    "early": _early,
    "redirect": _redirect,
    "large": _large,
    "too-large": _too_large,
    "content": _content,
    "trailers": _trailers,
    "reset": _reset,
    "silent": _silent,
    "empty": _empty,
    "dynamic": _dynamic,
    "forbidden": _forbidden,
    "close": _close,
}


class Tickets:
    """The tickets of this server, each to be used once."""

    def __init__(self) -> None:
        self._by_label: dict[bytes, SessionTicket] = {}

    def add(self, ticket: SessionTicket) -> None:
        """Keep a ticket."""
        self._by_label[ticket.ticket] = ticket

    def pop(self, label: bytes) -> SessionTicket | None:
        """Remove and return the ticket with this label."""
        return self._by_label.pop(label, None)


class ServerConnection(QuicConnectionProtocol):
    """One connection."""

    requests: Path
    _http: H3Connection | None = None

    def quic_event_received(self, event: QuicEvent) -> None:
        """Answer requests."""
        if isinstance(event, ProtocolNegotiated):
            self._http = H3Connection(self._quic)
        if self._http is None:
            return
        for found in self._http.handle_event(event):
            if isinstance(found, HeadersReceived):
                fields = {name.decode(): value.decode() for name, value in found.headers}
                with self.requests.open("a") as file:
                    file.write(json.dumps(fields) + "\n")
                mode = fields[":authority"].split(".")[0]
                MODES.get(mode, _plain)(self._http, self._quic, found.stream_id)
                self.transmit()


async def _main(port: int, chain: str, key: str, requests: str, host: str = "127.0.0.1") -> None:
    configuration = QuicConfiguration(is_client=False, alpn_protocols=H3_ALPN)
    configuration.load_cert_chain(chain, key)
    ServerConnection.requests = Path(requests)
    tickets = Tickets()
    server = await serve(
        host,
        port,
        configuration=configuration,
        create_protocol=ServerConnection,
        session_ticket_fetcher=tickets.pop,
        session_ticket_handler=tickets.add,
    )
    assert server._transport is not None
    print("READY", server._transport.get_extra_info("sockname")[1], flush=True)
    await asyncio.Future()


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1]), *sys.argv[2:6]))
