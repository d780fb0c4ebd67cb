"""A client with a single Initial: sends a ClientHello, and parses every datagram of the answer.

It uses aioquic's TLS messages, packet headers and packet protection, so it shares no code with the servers in
Rust and Go or with `wire`. Times are the kernel's receive timestamps.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import ip_address

from aioquic import tls
from aioquic._buffer import Buffer
from aioquic._crypto import CryptoError
from aioquic.quic.crypto import CryptoPair
from aioquic.quic.packet import (
    QuicHeader,
    QuicPacketType,
    QuicProtocolVersion,
    QuicTransportParameters,
    get_retry_integrity_tag,
    pull_quic_header,
    push_quic_transport_parameters,
)

VERSION = QuicProtocolVersion.VERSION_1
INITIAL_BYTES = 1252
SO_TIMESTAMPNS = 35
HELLO_RETRY_RANDOM = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")


@dataclass
class ParsedPacket:
    """One packet in a datagram: header, and contents if it is a decrypted Initial."""

    header: QuicHeader
    size: int
    opened: bool = False
    number: int | None = None
    frames: list[str] = field(default_factory=list)
    acked: list[int] = field(default_factory=list)
    crypto: list[tuple[int, bytes]] = field(default_factory=list)
    close: tuple[int, str] | None = None
    parse_error: bool = False

    @property
    def kind(self) -> str:
        return self.header.packet_type.name.lower()


@dataclass
class ReceivedDatagram:
    """A received datagram: microseconds since the Initial was sent, size, packets."""

    at_us: float
    size: int
    source: str
    packets: list[ParsedPacket]

    def frames(self) -> list[str]:
        return [name for packet in self.packets for name in packet.frames]

    @property
    def has_ack(self) -> bool:
        return any(packet.acked for packet in self.packets)

    @property
    def has_server_hello(self) -> bool:
        return any(offset == 0 for packet in self.packets for offset, _ in packet.crypto)

    @property
    def has_handshake(self) -> bool:
        return any(packet.kind == "handshake" for packet in self.packets)


class InitialClient:
    """One socket, one connection attempt."""

    def __init__(
        self, ip: str, port: int, sni: str | None, *, groups: tuple[tls.Group, ...] | None = None
    ) -> None:
        self.address = (ip, port)
        self.sni = sni
        self.groups = groups or (tls.Group.X25519, tls.Group.SECP256R1, tls.Group.SECP384R1)
        self.scid = os.urandom(8)
        self.dcid = os.urandom(8)
        self.hello = self._client_hello()
        self.next_number = 0
        self.sent_at = 0.0
        self.socket = socket.socket(
            socket.AF_INET6 if ip_address(ip).version == 6 else socket.AF_INET, socket.SOCK_DGRAM
        )
        self.socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.keys = self._keys(self.dcid)

    def __enter__(self) -> InitialClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    @staticmethod
    def _keys(cid: bytes) -> CryptoPair:
        keys = CryptoPair()
        keys.setup_initial(cid, is_client=True, version=VERSION)
        return keys

    def _client_hello(self) -> bytes:
        parameters = Buffer(capacity=256)
        push_quic_transport_parameters(
            parameters,
            QuicTransportParameters(
                max_idle_timeout=3000,
                initial_max_data=1 << 16,
                initial_max_stream_data_bidi_local=1 << 16,
                initial_max_streams_bidi=10,
                initial_source_connection_id=self.scid,
            ),
        )
        buffer = Buffer(capacity=1024)
        tls.push_client_hello(
            buffer,
            tls.ClientHello(
                random=os.urandom(32),
                legacy_session_id=b"",
                cipher_suites=[0x1301, 0x1302, 0x1303],
                legacy_compression_methods=[0],
                alpn_protocols=["h3"],
                # Any 32 bytes are a valid X25519 key share. The client never computes the shared secret.
                key_share=[(tls.Group.X25519, os.urandom(32))],
                server_name=self.sni,
                signature_algorithms=[0x0403, 0x0503, 0x0804, 0x0805],
                supported_groups=[int(group) for group in self.groups],
                supported_versions=[0x0304],
                other_extensions=[(0x39, parameters.data)],
            ),
        )
        return bytes(buffer.data)

    def _initial(self, payload: bytes, token: bytes, size: int) -> bytes:
        """Return an Initial packet padded to `size` bytes, with a packet number of two bytes."""
        number, self.next_number = self.next_number, self.next_number + 1
        head = Buffer(capacity=256 + len(token))
        head.push_uint8(0xC1)
        head.push_uint32(VERSION)
        for cid in (self.dcid, self.scid):
            head.push_uint8(len(cid))
            head.push_bytes(cid)
        head.push_uint_var(len(token))
        head.push_bytes(token)
        rest = size - len(head.data) - 2
        payload = payload.ljust(rest - 2 - 16, b"\0")
        head.push_uint16(0x4000 | rest)
        head.push_uint16(number)
        return bytes(self.keys.encrypt_packet(bytes(head.data), payload, number))

    def client_hello_packet(self, token: bytes = b"", size: int = INITIAL_BYTES) -> bytes:
        """Return the next Initial, with the whole ClientHello."""
        frame = Buffer(capacity=1024)
        frame.push_uint_var(6)
        frame.push_uint_var(0)
        frame.push_uint_var(len(self.hello))
        frame.push_bytes(self.hello)
        return self._initial(bytes(frame.data), token, size)

    def send_hello(self, token: bytes = b"") -> None:
        """Send the ClientHello in an Initial; times count from this call."""
        packet = self.client_hello_packet(token)
        self.sent_at = time.time()
        self.socket.sendto(packet, self.address)

    def send_close(self) -> None:
        """Send CONNECTION_CLOSE (NO_ERROR) in an Initial of 1200 bytes."""
        self.socket.sendto(self._initial(bytes([0x1C, 0, 0, 0]), b"", 1200), self.address)

    def follow_retry(self, datagram: ReceivedDatagram) -> None:
        """Send the ClientHello again after a Retry. The Retry's integrity tag must be valid."""
        header = datagram.packets[0].header
        assert header.packet_type == QuicPacketType.RETRY
        self.dcid = header.source_cid
        self.keys = self._keys(self.dcid)
        self.send_hello(header.token)

    def read(self, seconds: float, *, until: int | None = None) -> list[ReceivedDatagram]:
        """Return the datagrams of the next `seconds`, but at most `until` datagrams."""
        return list(self._read(time.time() + seconds, until))

    def _read(self, end: float, until: int | None) -> Iterator[ReceivedDatagram]:
        count = 0
        while until is None or count < until:
            # Even after the deadline, datagrams that have already arrived are read.
            self.socket.settimeout(max(end - time.time(), 0.001))
            try:
                data, ancillary, _, peer = self.socket.recvmsg(65536, 256)
            except TimeoutError:
                return
            count += 1
            (stamp,) = [
                value
                for level, kind, value in ancillary
                if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS)
            ]
            seconds, nanoseconds = struct.unpack("qq", stamp)
            at_us = (seconds - self.sent_at + nanoseconds / 1e9) * 1e6
            yield ReceivedDatagram(at_us, len(data), peer[0], self._packets(data))

    def _packets(self, data: bytes) -> list[ParsedPacket]:
        packets = []
        buffer = Buffer(data=data)
        while not buffer.eof():
            start = buffer.tell()
            # quiche fills a datagram with zeros after its packets, instead of a PADDING frame in a packet.
            if not any(data[start:]):
                break
            header = pull_quic_header(buffer, host_cid_length=len(self.scid))
            packet = ParsedPacket(header, header.packet_length)
            packets.append(packet)
            if header.packet_type == QuicPacketType.RETRY:
                encrypted = data[start : start + header.packet_length]
                packet.opened = header.integrity_tag == get_retry_integrity_tag(
                    encrypted[:-16], self.dcid, VERSION
                )
            if header.packet_type == QuicPacketType.INITIAL:
                self._open(packet, data[start : start + header.packet_length], buffer.tell() - start)
            if header.packet_type == QuicPacketType.VERSION_NEGOTIATION:
                break
            buffer.seek(start + header.packet_length)
        return packets

    def _open(self, packet: ParsedPacket, data: bytes, offset: int) -> None:
        if packet.header.destination_cid != self.scid:
            return
        try:
            _, payload, packet.number = self.keys.decrypt_packet(data, offset, 0)
        except CryptoError:
            return
        packet.opened = True
        try:
            _parse(packet, Buffer(data=payload))
        except (ValueError, tls.Alert):
            packet.parse_error = True


def _parse(packet: ParsedPacket, buffer: Buffer) -> None:
    """Parse the frames of an Initial (RFC 9000 12.4); consecutive PADDING counts as one frame."""
    while not buffer.eof():
        kind = buffer.pull_uint_var()
        if kind == 0:
            if packet.frames[-1:] != ["padding"]:
                packet.frames.append("padding")
        elif kind == 1:
            packet.frames.append("ping")
        elif kind in (2, 3):
            packet.frames.append("ack" if kind == 2 else "ack_ecn")
            largest = buffer.pull_uint_var()
            buffer.pull_uint_var()  # delay
            ranges = buffer.pull_uint_var()
            first = buffer.pull_uint_var()
            packet.acked += range(largest - first, largest + 1)
            for _ in range(2 * ranges + (3 if kind == 3 else 0)):
                buffer.pull_uint_var()
        elif kind == 6:
            offset = buffer.pull_uint_var()
            data = buffer.pull_bytes(buffer.pull_uint_var())
            packet.frames.append("crypto")
            packet.crypto.append((offset, data))
        elif kind == 0x1C:
            code = buffer.pull_uint_var()
            buffer.pull_uint_var()
            reason = buffer.pull_bytes(buffer.pull_uint_var())
            packet.frames.append("close")
            packet.close = (code, reason.decode())
        else:
            raise ValueError(f"frame type {kind:#x}")


def gap_us(datagrams: list[ReceivedDatagram]) -> float:
    """Return the time from the first datagram with an ACK to the first with the start of the ServerHello."""
    ack = next(datagram for datagram in datagrams if datagram.has_ack)
    hello = next(datagram for datagram in datagrams if datagram.has_server_hello)
    return hello.at_us - ack.at_us
