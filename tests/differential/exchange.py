"""An aioquic client and server on a simulated path, with every datagram in a capture.

Both sides use real TLS and QUIC. This module simulates the path (delay, loss, order, addresses) and the
clock, so the same scenario produces the same packets at the same times.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from aioquic._buffer import Buffer
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.packet import encode_quic_retry, encode_quic_version_negotiation, pull_quic_header

from tests.dissect.build import START_NS, CaptureBuilder, udp
from tests.prober.quic_server import configuration as server_configuration

Address = tuple[str, int]
SERVER: Address = ("198.51.100.1", 443)
ONE_WAY_S = 0.01
RETRY_CID = b"\x7e" * 8

# (from_client, ordinal of the datagram in its direction from 0) -> seconds of delay; `None`: lost.
Path_ = Callable[[bool, int], float | None]


def steady(_from_client: bool, _ordinal: int) -> float | None:
    """A path without loss or reordering."""
    return ONE_WAY_S


@dataclass
class Exchange:
    """One connection. Times in seconds from the start of the capture."""

    keys: TextIO
    path: Path_ = steady
    retry: bool = False
    client: Address = ("192.0.2.10", 40000)
    client_settings: Mapping[str, object] = field(default_factory=dict)
    server_settings: Mapping[str, object] = field(default_factory=dict)
    # (seconds, action of the client or server at that time)
    actions: list[tuple[float, Callable[[Exchange], None]]] = field(default_factory=list)
    start_s: float = 0.0

    def __post_init__(self) -> None:
        self.capture = CaptureBuilder()
        self.now = self.start_s
        self.sent = {True: 0, False: 0}
        self.queue: list[tuple[float, int, bool, bytes, Address]] = []
        self.order = 0
        common: dict[str, object] = {"secrets_log_file": self.keys, "max_datagram_frame_size": 65536}
        settings = QuicConfiguration(is_client=True, alpn_protocols=["h3"], server_name="www.example.net")
        settings.verify_mode = 0
        for name, value in (common | dict(self.client_settings)).items():
            setattr(settings, name, value)
        self.near = QuicConnection(configuration=settings)
        self.far: QuicConnection | None = None

    def run(self, until_s: float = 3.0) -> CaptureBuilder:
        """Connect, run the actions, and continue until both sides are idle; return the client's capture."""
        self.near.connect(SERVER, now=self.now)
        self._flush()
        pending = sorted(self.actions, key=lambda action: action[0])
        while True:
            timers = [side.get_timer() for side in (self.near, self.far) if side is not None]
            times = [t for t in timers if t is not None]
            times += [self.queue[0][0]] if self.queue else []
            times += [self.start_s + pending[0][0]] if pending else []
            if not times or min(times) > self.start_s + until_s:
                return self.capture
            self.now = max(self.now, min(times))
            if pending and self.start_s + pending[0][0] <= self.now:
                pending.pop(0)[1](self)
            while self.queue and self.queue[0][0] <= self.now:
                self._arrive(*heapq.heappop(self.queue)[2:])
            for side in (self.near, self.far):
                timer = side.get_timer() if side is not None else None
                if side is not None and timer is not None and timer <= self.now:
                    side.handle_timer(now=self.now)
            self._flush()

    def _flush(self) -> None:
        for from_client, side in ((True, self.near), (False, self.far)):
            if side is None:
                continue
            while side.next_event() is not None:
                pass
            for datagram, to in side.datagrams_to_send(now=self.now):
                self._send(from_client, datagram, self.client if from_client else to)

    def _send(self, from_client: bool, datagram: bytes, client: Address) -> None:
        delay = self.path(from_client, self.sent[from_client])
        self.sent[from_client] += 1
        if from_client:
            self._log(client, SERVER, datagram)
        if delay is not None:
            self.order += 1
            heapq.heappush(self.queue, (self.now + delay, self.order, from_client, datagram, client))

    def _log(self, src: Address, dst: Address, datagram: bytes) -> None:
        # Use whole microseconds, which every capture format supports.
        at_ns = round(self.now * 1_000_000) * 1000 - START_NS % 1000
        self.capture.packets.append((at_ns, udp(src, dst, datagram)))

    def _arrive(self, from_client: bool, datagram: bytes, client: Address) -> None:
        if not from_client:
            self._log(SERVER, client, datagram)
            self.near.receive_datagram(datagram, SERVER, now=self.now)
            return
        if self.far is None:
            self.far = self._accept(datagram, client)
        if self.far is not None:
            self.far.receive_datagram(datagram, client, now=self.now)

    def _accept(self, datagram: bytes, client: Address) -> QuicConnection | None:
        """Handle a first datagram as a server: negotiate the version, send a Retry, or accept."""
        header = pull_quic_header(Buffer(data=datagram), host_cid_length=8)
        settings = server_configuration()
        settings.secrets_log_file = None
        settings.max_datagram_frame_size = 65536
        for name, value in self.server_settings.items():
            setattr(settings, name, value)
        if header.version not in settings.supported_versions:
            versions = [int(version) for version in settings.supported_versions]
            answer = encode_quic_version_negotiation(header.destination_cid, header.source_cid, versions)
            self._send(False, answer, client)
            return None
        if self.retry and not header.token:
            self.first_dcid = header.destination_cid
            version = header.version
            assert version is not None
            answer = encode_quic_retry(
                version, RETRY_CID, header.source_cid, header.destination_cid, b"token of the path"
            )
            self._send(False, answer, client)
            return None
        return QuicConnection(
            configuration=settings,
            original_destination_connection_id=self.first_dcid if self.retry else header.destination_cid,
            retry_source_connection_id=RETRY_CID if self.retry else None,
        )


def write(captures: list[CaptureBuilder], path: Path) -> Path:
    """Write a capture file with several connections."""
    combined = CaptureBuilder()
    for capture in captures:
        combined.packets += capture.packets
    return combined.write(path)
