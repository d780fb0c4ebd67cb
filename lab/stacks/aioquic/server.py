"""Run the lab's aioquic server: `python -m lab.stacks.aioquic.server --config FILE`.

docs/reference/lab-hosts.md describes the file. The modes are as in lab/stacks/quiche/README.md, but
aioquic's instant ACK is a small datagram, and all endpoints of an address send Retry packets or none does.
With an empty `alpn`, the server selects no protocol. With `hq-interop`, it uses HTTP/0.9 and answers every
request with the content, or with an empty line if there is no content. It prints `READY` when every address
is bound and runs until killed. It writes a qlog file of each connection into the folder QLOGDIR, if the
environment sets it.
"""

from __future__ import annotations

import asyncio
import os
import selectors
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import cast

import click
from aioquic._buffer import Buffer
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3Connection
from aioquic.h3.events import HeadersReceived
from aioquic.quic.configuration import SMALLEST_MAX_DATAGRAM_SIZE, QuicConfiguration
from aioquic.quic.connection import NetworkAddress
from aioquic.quic.events import HandshakeCompleted, ProtocolNegotiated, QuicEvent, StreamDataReceived
from aioquic.quic.logger import QuicFileLogger
from aioquic.quic.packet import QuicHeader, QuicPacketType, encode_quic_version_negotiation, pull_quic_header
from pydantic import ValidationError

from lab.stacks.aioquic.config import AnswerConfig, CertificateFiles, EndpointConfig, ServerConfig, read
from lab.stacks.aioquic.held import ConnectionIds, HeldConnection, Tickets
from lab.stacks.aioquic.retries import Retries

IDLE_S = 5.0
LEAD_S = 0.005
"""TLS work in Python takes some milliseconds, so it starts this long before its datagrams are sent."""


class HeldProtocol(QuicConnectionProtocol):
    """Releases a connection's answers at the times that the endpoint declares."""

    def __init__(
        self, quic: HeldConnection, choose: Callable[[str | None], tuple[EndpointConfig, QuicConfiguration]]
    ) -> None:
        super().__init__(quic)
        self._held_quic = quic
        self._choose = choose
        self._chosen = False
        self._endpoint: EndpointConfig | None = None
        self._http: H3Connection | None = None
        # Before the SNI is known, the server sends no datagram, not even an ACK of a partial ClientHello.
        self._silent = True
        self._prepared: list[tuple[bytes, NetworkAddress]] = []

    def transmit(self) -> None:
        if not self._silent:
            super().transmit()

    def datagram_received(self, data: bytes | str, addr: NetworkAddress) -> None:
        arrived = self._loop.time()
        super().datagram_received(data, addr)
        if not self._chosen and (hello := self._held_quic.client_hello()) is not None:
            self._chosen = True
            self._answer(*self._choose(hello.server_name), arrived)

    @property
    def answers(self) -> bool:
        """Return whether the ClientHello is complete, so that the endpoint is chosen."""
        return self._chosen

    def quic_event_received(self, event: QuicEvent) -> None:
        """Start HTTP/3 after the handshake; earlier, its SETTINGS would be part of the first flight.

        A request in 0-RTT packets is answered in the first flight.
        """
        early = isinstance(event, ProtocolNegotiated) and self._held_quic.tls.early_data_accepted
        completed = isinstance(event, HandshakeCompleted) and self._http is None
        if (early or completed) and self._endpoint is not None and self._endpoint.alpn == "h3":
            self._http = H3Connection(self._quic)
        answer = self._endpoint.http if self._endpoint else None
        if isinstance(event, StreamDataReceived) and event.end_stream and self._http is None:
            if answer is not None:
                delay_s = (answer.delay_us or 0) / 1e6
                self._loop.call_later(delay_s, self._respond_plainly, event.stream_id, answer.body_bytes)
            return
        for http_event in self._http.handle_event(event) if self._http else []:
            if isinstance(http_event, HeadersReceived) and answer is not None:
                delay_s = (answer.delay_us or 0) / 1e6
                self._loop.call_later(delay_s, self._respond, http_event.stream_id, answer)

    def _respond(self, stream: int, answer: AnswerConfig) -> None:
        if self._http is not None:
            self._http.send_headers(stream, answer.fields, end_stream=not answer.body_bytes)
            if answer.body_bytes:
                self._http.send_data(stream, bytes(answer.body_bytes), end_stream=True)
            self.transmit()

    def _respond_plainly(self, stream: int, body_bytes: int) -> None:
        self._quic.send_stream_data(stream, bytes(body_bytes) or b"\r\n", end_stream=True)
        self.transmit()

    def _answer(self, endpoint: EndpointConfig, certificate: QuicConfiguration, arrived: float) -> None:
        self._endpoint = endpoint
        if not endpoint.acknowledges:
            self._loop.call_at(arrived + endpoint.delay_s, self._release, certificate)
            return
        self._silent = False
        self.transmit()
        self._silent = True
        release = self._loop.time() + endpoint.delay_s
        self._loop.call_at(release - LEAD_S, self._prepare, certificate, release)

    def _prepare(self, certificate: QuicConfiguration, release: float) -> None:
        self._resume(certificate)
        self._prepared = self._held_quic.datagrams_to_send(now=self._loop.time())
        self._loop.call_at(release, self._release, certificate)

    def _resume(self, certificate: QuicConfiguration) -> None:
        assert self._endpoint is not None
        self._held_quic.resume(certificate, self._endpoint.alpn, self._loop.time())

    def _release(self, certificate: QuicConfiguration) -> None:
        if self._held_quic.held:
            self._resume(certificate)
        for data, addr in self._prepared:
            cast(asyncio.DatagramTransport, self._transport).sendto(data, addr)
        self._prepared = []
        self._silent = False
        self._process_events()
        self.transmit()


class EdgeServer(asyncio.DatagramProtocol):
    """An address's connections."""

    def __init__(
        self,
        plain: QuicConfiguration,
        choose: Callable[[str | None], tuple[EndpointConfig, QuicConfiguration]],
        first: EndpointConfig,
    ) -> None:
        self._plain = plain
        self._retries = Retries() if first.retries else None
        self._tickets = Tickets() if first.tickets else None
        self._choose = choose
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.DatagramTransport | None = None
        self._protocols: dict[tuple[NetworkAddress, bytes], HeldProtocol] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: NetworkAddress) -> None:
        try:
            header = pull_quic_header(Buffer(data=data), host_cid_length=self._plain.connection_id_length)
        except ValueError:
            return
        protocol = self._protocols.get((addr, header.destination_cid))
        if protocol is None and len(data) >= SMALLEST_MAX_DATAGRAM_SIZE and self._transport is not None:
            if header.version not in (None, 0, *self._plain.supported_versions):
                negotiation = encode_quic_version_negotiation(
                    source_cid=header.destination_cid,
                    destination_cid=header.source_cid,
                    supported_versions=self._plain.supported_versions,
                )
                self._transport.sendto(negotiation, addr)
            elif header.packet_type == QuicPacketType.INITIAL:
                protocol = self._first_initial(header, addr)
        if protocol is not None:
            protocol.datagram_received(data, addr)

    def _first_initial(self, header: QuicHeader, addr: NetworkAddress) -> HeldProtocol | None:
        """Return a new connection, or send a Retry and return `None`."""
        ids: ConnectionIds | None = ConnectionIds(header.destination_cid)
        if self._retries is not None and self._transport is not None:
            ids = self._retries.ids(header, addr, self._loop.time())
            if ids is None:
                self._transport.sendto(self._retries.packet(header, addr, self._loop.time()), addr)
        return None if ids is None else self._connect(ids, header.destination_cid, addr)

    def _connect(self, ids: ConnectionIds, destination_cid: bytes, addr: NetworkAddress) -> HeldProtocol:
        quic = HeldConnection(self._plain, ids, self._tickets)
        protocol = HeldProtocol(quic, self._choose)
        protocol.connection_made(cast(asyncio.DatagramTransport, self._transport))

        def issued(cid: bytes) -> None:
            self._protocols[addr, cid] = protocol

        def retired(cid: bytes) -> None:
            self._protocols.pop((addr, cid), None)

        on_end = partial(self._remove, protocol)
        protocol._connection_id_issued_handler = issued
        protocol._connection_id_retired_handler = retired
        protocol._connection_terminated_handler = on_end
        self._protocols[addr, destination_cid] = protocol
        self._protocols[addr, quic.host_cid] = protocol
        # aioquic's idle timer does not run before the first answer.
        self._loop.call_later(IDLE_S, lambda: None if protocol.answers else on_end())
        return protocol

    def _remove(self, protocol: HeldProtocol) -> None:
        for key in [key for key, value in self._protocols.items() if value is protocol]:
            del self._protocols[key]


def _configuration(files: CertificateFiles | None) -> QuicConfiguration:
    configuration = QuicConfiguration(alpn_protocols=["h3"], is_client=False, idle_timeout=IDLE_S)
    if logs := os.environ.get("QLOGDIR"):
        configuration.quic_logger = QuicFileLogger(logs)
    if files is not None:
        configuration.load_cert_chain(files.chain, files.key)
    return configuration


async def serve(config: ServerConfig) -> None:
    """Bind every address, print `READY`, and serve forever. Raises OSError if an address cannot be bound."""
    loop = asyncio.get_running_loop()
    certificates = {name: _configuration(files) for name, files in config.certificates.items()}

    def choose(ip: str, sni: str | None) -> tuple[EndpointConfig, QuicConfiguration]:
        endpoint = config.find(ip, sni)
        return endpoint, certificates[endpoint.certificate]

    for ip in map(str, config.listen):
        first = config.find(ip, None)
        await loop.create_datagram_endpoint(
            partial(EdgeServer, certificates[first.certificate], partial(choose, ip), first),
            local_addr=(ip, config.port),
        )
    print("READY", flush=True)
    await asyncio.Event().wait()


def _event_loop() -> asyncio.AbstractEventLoop:
    # select() sleeps in microseconds, epoll_wait() in milliseconds, rounded up.
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


@click.command(epilog="Example: python -m lab.stacks.aioquic.server --config var/lab/servers/meta.json")
@click.option("--config", "file", required=True, type=click.Path(path_type=Path), help="JSON file.")
def main(file: Path) -> None:
    """Serve the lab's QUIC endpoints from a JSON file (docs/reference/lab-hosts.md)."""
    try:
        config = read(file)
    except (OSError, ValueError) as error:
        problem: object = error
        if isinstance(error, ValidationError):
            first = error.errors()[0]
            problem = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        print(f"aioquic server: {file}: {problem}", file=sys.stderr)
        sys.exit(2)
    with asyncio.Runner(loop_factory=_event_loop) as runner:
        try:
            runner.run(serve(config))
        except OSError as error:
            print(f"aioquic server: {error}", file=sys.stderr)
            sys.exit(1)


if __name__ == "__main__":
    main()
