"""The download client aioquic. The ANRW paper used it; here it only serves comparisons with the paper.

It moves about 10 MB per CPU second, so above 100 Mbit/s it limits the download itself (`client_limited`).
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TextIO

from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h0.connection import H0_ALPN, H0Connection
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, H3Event, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import NetworkAddress, QuicConnection
from aioquic.quic.events import ConnectionTerminated, HandshakeCompleted, QuicEvent, StreamReset
from aioquic.quic.logger import QuicLogger
from aioquic.tls import SessionTicket

from downloader.clients import shared
from downloader.clients.contract import KEPT_HEADERS, MOST_OF_A_HEADER, ClientAnswer, Request
from firstflight.egress.permitted import Permitted

CONNECTION_WINDOW, STREAM_WINDOW = 25_165_824, 16_777_216
_H3_NO_ERROR = 0x100
_CRYPTO_ERRORS = range(0x100, 0x200)
_tickets: dict[str, SessionTicket] = {}
"""The newest ticket of each host, for requests with `resume`."""
_BAD_CERTIFICATE = frozenset({0x12A, 0x12B, 0x12C, 0x12D, 0x12E, 0x130})


class _OneAddress(QuicConnection):
    """A connection that sends to one address only.

    aioquic probes the address that a server prefers (RFC 9000 9.6), and answers path challenges from any
    address. The egress policy has not checked these addresses.
    """

    def connect(self, addr: NetworkAddress, now: float) -> None:
        self._only_to = addr
        super().connect(addr, now)

    def datagrams_to_send(self, now: float) -> list[tuple[bytes, NetworkAddress]]:
        return [(data, to) for data, to in super().datagrams_to_send(now) if to == self._only_to]


class _Transfer(QuicConnectionProtocol):
    """One GET request. `over` completes when the response is complete or the connection is closed."""

    def __init__(self, quic: QuicConnection, request: Request) -> None:
        super().__init__(quic)
        self.request = request
        self.begun = time.monotonic_ns()
        self.over: asyncio.Future[tuple[str, str | None]] = asyncio.get_running_loop().create_future()
        self.http: H0Connection | H3Connection | None = None
        self.tls_us: int | None = None
        self.first_byte_us: int | None = None
        self.verified: bool | None = None
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.body = 0
        self.wire = shared.Wire(request.max_wire_bytes)

    def elapsed_us(self) -> int:
        return (time.monotonic_ns() - self.begun) // 1000

    def datagram_received(self, data: bytes | str, addr: NetworkAddress) -> None:
        """Process a datagram, unless the download has exceeded the limit of received bytes."""
        if self.wire.is_over():
            self._end("wire_limit", self.wire.message(self.body))
        else:
            super().datagram_received(data, addr)

    def quic_event_received(self, event: QuicEvent) -> None:
        if isinstance(event, HandshakeCompleted):
            self.tls_us = self.elapsed_us()
            self.verified = True if self.request.verify else None
            if self.http is None:
                self._ask()
            elif not event.early_data_accepted:
                self._end("failed", "the server rejected the request in 0-RTT packets")
        elif isinstance(event, ConnectionTerminated):
            self._terminated(event)
        elif isinstance(event, StreamReset):
            self._end("reset", f"the server reset the stream: {event.error_code:#x}")
        if self.http is not None:
            for part in self.http.handle_event(event):
                self._handle(part)

    def start(self) -> None:
        """Send the ClientHello, with the request in 0-RTT packets if the ticket permits it."""
        ticket = self._quic.configuration.session_ticket
        if ticket is not None and ticket.max_early_data_size:
            self._ask()
        else:
            self.transmit()

    def _ask(self) -> None:
        request = self.request
        authority = request.host if request.port == 443 else f"{request.host}:{request.port}"
        self.http = H0Connection(self._quic) if _is_plain(request) else H3Connection(self._quic)
        self.http.send_headers(
            self._quic.get_next_available_stream_id(),
            [
                (b":method", b"GET"),
                (b":scheme", b"https"),
                (b":authority", authority.encode()),
                (b":path", request.path.encode()),
                (b"user-agent", request.user_agent.encode()),
                (b"accept", b"*/*"),
                (b"accept-encoding", b"identity"),
            ],
            end_stream=True,
        )
        self.transmit()

    def _handle(self, part: H3Event) -> None:
        if isinstance(part, HeadersReceived):
            if self.first_byte_us is None:
                self.first_byte_us = self.elapsed_us()
            for raw_name, raw_value in part.headers:
                name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
                if name == ":status" and value.isdecimal():
                    self.status = int(value[:3])
                elif name in KEPT_HEADERS:
                    self.headers.setdefault(name, value[:MOST_OF_A_HEADER])
        elif isinstance(part, DataReceived):
            self.body += len(part.data)
            if self.body >= self.request.max_bytes:
                self._end("limit", None)
        if isinstance(part, HeadersReceived | DataReceived) and part.stream_ended:
            length = self.length()
            self._end("complete" if length is None or self.body >= length else "short", None)

    def length(self) -> int | None:
        """The Content-Length of the response."""
        return shared.content_length(self.headers)

    def _terminated(self, event: ConnectionTerminated) -> None:
        detail = f"closed with {event.error_code:#x} {event.reason_phrase}".strip()[:MOST_OF_A_HEADER]
        if self.tls_us is not None:
            self._end("reset", detail)
        elif event.error_code in _CRYPTO_ERRORS:
            self.verified = False if event.error_code in _BAD_CERTIFICATE else None
            self._end("tls_failed", detail)
        else:
            self._end("connect_failed", detail)

    def _end(self, end: str, detail: str | None) -> None:
        if not self.over.done():
            self.over.set_result((end, detail))


def _is_plain(request: Request) -> bool:
    """Return whether a request uses HTTP/0.9. The answer is then only a body."""
    return request.http == "0.9"


async def download(request: Request, keys: TextIO) -> ClientAnswer:
    """Do one transfer. Never raise due to a server's behaviour."""
    configuration = QuicConfiguration(
        alpn_protocols=H0_ALPN if _is_plain(request) else H3_ALPN,
        is_client=True,
        server_name=request.host,
        max_data=CONNECTION_WINDOW,
        max_stream_data=STREAM_WINDOW,
        idle_timeout=request.timeout_s,
        secrets_log_file=keys,
        quic_logger=QuicLogger() if os.environ.get("QLOGDIR") else None,
    )
    configuration.load_verify_locations(cafile=request.roots)
    if request.resume:
        configuration.session_ticket = _tickets.get(request.host)
    started_at, cpu = time.time_ns(), time.process_time_ns()
    family = socket.AF_INET6 if ":" in request.ip else socket.AF_INET
    udp = socket.socket(family, socket.SOCK_DGRAM)
    udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, shared.UDP_BUFFER)
    udp.bind(("::" if family == socket.AF_INET6 else "0.0.0.0", 0))
    udp.setblocking(False)
    keep = partial(_tickets.__setitem__, request.host) if request.resume else None
    quic = _OneAddress(configuration=configuration, session_ticket_handler=keep)
    transport, transfer = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: _Transfer(quic, request), sock=udp
    )
    try:
        # The kernel's form of the peer's address. aioquic treats any other form as another path.
        peer = (request.ip, request.port, 0, 0) if family == socket.AF_INET6 else (request.ip, request.port)
        transfer.connect(peer, transmit=False)
        transfer.start()
        try:
            end, detail = await asyncio.wait_for(asyncio.shield(transfer.over), request.timeout_s)
        except TimeoutError:
            end, detail = ("connect_failed" if transfer.tls_us is None else "timeout"), "timed out"
        duration_us = transfer.elapsed_us()
        answer = ClientAnswer(
            end=end,
            detail=detail,
            started_at=started_at,
            client_port=udp.getsockname()[1],
            tls_us=transfer.tls_us,
            first_byte_us=transfer.first_byte_us,
            duration_us=duration_us,
            cpu_us=(time.process_time_ns() - cpu) // 1000,
            status=transfer.status,
            http_version="3" if transfer.status is not None else None,
            tls_version="TLSv1.3" if transfer.tls_us is not None else None,
            tls_verified=transfer.verified,
            body_bytes=min(transfer.body, request.max_bytes),
            content_length=transfer.length(),
            headers=transfer.headers,
            receive_buffer=udp.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF),
            udp_drops=shared.drops(udp),
            wire_bytes=transfer.wire.bytes(),
        )
        transfer.close(error_code=_H3_NO_ERROR)
        transfer.transmit()
        return answer
    finally:
        transport.close()
        _write_qlog(configuration.quic_logger)


def _write_qlog(logger: QuicLogger | None) -> None:
    """Write the connection's log to the folder QLOGDIR, if the environment names a folder."""
    if logger is None:
        return
    log = logger.to_dict()
    for trace in log["traces"]:
        path = Path(os.environ["QLOGDIR"]) / f"{trace['common_fields']['ODCID']}_client.qlog"
        path.write_text(json.dumps({**log, "traces": [trace]}), encoding="utf-8")


def main(arguments: Iterable[str]) -> None:
    """Answer requests until the end of standard input. `shared.permitted` describes the arguments."""
    permitted = shared.permitted(arguments)
    log = Path(os.environ.get("SSLKEYLOGFILE") or os.devnull)
    with log.open("a", encoding="ascii") as keys:
        shared.say_ready(f"aioquic/{version('aioquic')}")
        for line in sys.stdin.buffer:
            shared.say(_answer(Request.of(line), permitted, keys))


def _answer(request: Request, permitted: Permitted, keys: TextIO) -> ClientAnswer:
    why = shared.why_not(permitted, request.ip, request.host)
    if why is not None:
        return ClientAnswer("blocked", detail=why)
    with suppress(KeyboardInterrupt):
        answer = asyncio.run(download(request, keys))
        keys.flush()
        return answer
    sys.exit(130)


if __name__ == "__main__":
    main(sys.argv[1:])
