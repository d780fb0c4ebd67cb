"""A connection of the lab's aioquic server, which passes the ClientHello to TLS late."""

from __future__ import annotations

from dataclasses import dataclass

from aioquic import tls
from aioquic._buffer import Buffer
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import NetworkAddress, QuicConnection, QuicConnectionError, QuicReceiveContext

_HANDSHAKE_HEADER = 4


@dataclass(frozen=True)
class ConnectionIds:
    """The destination connection ID of the client's first Initial, and the one of a Retry, if any."""

    original: bytes
    after_retry: bytes | None = None


class Tickets:
    """The issued tickets of a server.

    A client may use a ticket again, because it may leave before it gets a new one. That permits replays of
    0-RTT requests (RFC 8446, 8), which does not matter for a server without state.
    """

    def __init__(self) -> None:
        self._issued: dict[bytes, tls.SessionTicket] = {}

    def keep(self, ticket: tls.SessionTicket) -> None:
        """Remember an issued ticket."""
        self._issued[ticket.ticket] = ticket

    def find(self, label: bytes) -> tls.SessionTicket | None:
        """Return the ticket with this identity; `None` if it was not issued."""
        return self._issued.get(label)


class HeldConnection(QuicConnection):
    """A connection that acknowledges the ClientHello as usual, but passes it to TLS only on request.

    With `tickets`, it issues tickets, and accepts them, with 0-RTT packets. Datagrams that arrive before
    TLS has the ClientHello are processed again afterwards, because their 0-RTT packets have no keys before.
    """

    def __init__(
        self, configuration: QuicConfiguration, ids: ConnectionIds, tickets: Tickets | None = None
    ) -> None:
        super().__init__(
            configuration=configuration,
            original_destination_connection_id=ids.original,
            retry_source_connection_id=ids.after_retry,
            session_ticket_fetcher=None if tickets is None else tickets.find,
            session_ticket_handler=None if tickets is None else tickets.keep,
        )
        self.held = True
        self._early: list[tuple[bytes, NetworkAddress]] | None = None if tickets is None else []
        self._frames: list[tuple[QuicReceiveContext, int, bytes]] = []
        self._pieces: dict[int, bytes] = {}

    def receive_datagram(self, data: bytes, addr: NetworkAddress, now: float) -> None:
        if self.held and self._early is not None:
            self._early.append((data, addr))
        super().receive_datagram(data, addr, now)

    def _handle_crypto_frame(self, context: QuicReceiveContext, frame_type: int, buf: Buffer) -> None:
        if not self.held or context.epoch != tls.Epoch.INITIAL:
            super()._handle_crypto_frame(context, frame_type, buf)
            return
        start = buf.tell()
        offset = buf.pull_uint_var()
        data = buf.pull_bytes(buf.pull_uint_var())
        self._pieces[offset] = data
        self._frames.append((context, frame_type, buf.data_slice(start, buf.tell())))

    def client_hello(self) -> tls.ClientHello | None:
        """Return the ClientHello, or `None` if it is incomplete or the bytes are not a ClientHello."""
        stream = b""
        while len(stream) in self._pieces and self._pieces[len(stream)]:
            stream += self._pieces[len(stream)]
        if len(stream) < _HANDSHAKE_HEADER or stream[0] != tls.HandshakeType.CLIENT_HELLO:
            return None
        size = _HANDSHAKE_HEADER + int.from_bytes(stream[1:_HANDSHAKE_HEADER], "big")
        if len(stream) < size:
            return None
        try:
            return tls.pull_client_hello(Buffer(data=stream[:size]))
        except (tls.Alert, ValueError):
            return None

    def resume(self, certificate: QuicConfiguration, alpn: str, now: float) -> None:
        """Pass the retained bytes to TLS, which answers with this certificate and protocol."""
        self.tls.certificate = certificate.certificate
        self.tls.certificate_chain = certificate.certificate_chain
        self.tls.certificate_private_key = certificate.private_key
        self.tls._alpn_protocols = [alpn] if alpn else None
        self.held = False
        try:
            for context, frame_type, frame in self._frames:
                super()._handle_crypto_frame(context, frame_type, Buffer(data=frame))
        except QuicConnectionError as error:
            self.close(
                error_code=error.error_code, frame_type=error.frame_type, reason_phrase=error.reason_phrase
            )
        self._frames.clear()
        for data, addr in self._early or ():
            super().receive_datagram(data, addr, now)
