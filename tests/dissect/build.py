"""Captures made for tests: aioquic seals the packets, so that reader and writer share no code."""

from __future__ import annotations

import ipaddress
import struct
from dataclasses import dataclass, field
from pathlib import Path

from aioquic.buffer import encode_uint_var
from aioquic.quic.crypto import CryptoPair
from aioquic.quic.packet import encode_quic_retry, encode_quic_version_negotiation

MS = 1_000_000  # nanoseconds
START_NS = 1_700_000_000_123_456_789
CLIENT, SERVER = ("192.0.2.10", 40000), ("198.51.100.1", 443)
ODCID, CLIENT_CID, SERVER_CID = bytes(range(8)), b"\xc1" * 8, b"\x5e" * 8
V1, V2, DRAFT_29 = 1, 0x6B3343CF, 0xFF00001D

HELLO_RETRY_RANDOM = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")


def message(kind: int, body: bytes) -> bytes:
    """Return a TLS handshake message."""
    return bytes([kind]) + len(body).to_bytes(3, "big") + body


def client_hello(name: str = "www.example.net", size: int = 280) -> bytes:
    """Return a ClientHello of exactly `size` bytes, with SNI and ALPN."""
    host = name.encode()
    sni = struct.pack("!HBH", len(host) + 3, 0, len(host)) + host
    alpn = b"\x00\x03\x02h3"
    extensions = struct.pack("!HH", 0, len(sni)) + sni + struct.pack("!HH", 16, len(alpn)) + alpn
    head = b"\x03\x03" + bytes(range(32)) + b"\0" + b"\0\2\x13\1" + b"\1\0"
    padding = size - 4 - len(head) - 2 - len(extensions) - 4
    extensions += struct.pack("!HH", 21, padding) + bytes(padding)
    return message(1, head + struct.pack("!H", len(extensions)) + extensions)


def server_hello(random: bytes = b"\x42" * 32) -> bytes:
    """Return a ServerHello; with HELLO_RETRY_RANDOM, a HelloRetryRequest."""
    extensions = struct.pack("!HHH", 43, 2, 0x0304)
    return message(2, b"\x03\x03" + random + b"\0" + b"\x13\1" + b"\0" + struct.pack("!H", 6) + extensions)


HELLO = client_hello()


def crypto(data: bytes, offset: int = 0) -> bytes:
    """Return a CRYPTO frame."""
    return b"\x06" + encode_uint_var(offset) + encode_uint_var(len(data)) + data


def ack(largest: int = 0, *, first_range: int = 0, delay: int = 5, ecn: bool = False) -> bytes:
    """Return an ACK frame with one range."""
    head = b"\x03" if ecn else b"\x02"
    body = b"".join(encode_uint_var(n) for n in (largest, delay, 0, first_range))
    return head + body + (b"\1\2\3" if ecn else b"")


def close(code: int, reason: bytes) -> bytes:
    """Return a CONNECTION_CLOSE frame (0x1c)."""
    return b"\x1c" + encode_uint_var(code) + b"\0" + encode_uint_var(len(reason)) + reason


def initial(
    frames: bytes,
    number: int = 0,
    *,
    from_client: bool = False,
    keys_of: bytes = ODCID,
    dcid: bytes | None = None,
    scid: bytes | None = None,
    token: bytes = b"",
    version: int = V1,
    pad_to: int | None = None,
    pn_bytes: int = 2,
) -> bytes:
    """Return a sealed Initial, with the sender's keys from the connection ID `keys_of`."""
    dcid = (ODCID if from_client else CLIENT_CID) if dcid is None else dcid
    scid = (CLIENT_CID if from_client else SERVER_CID) if scid is None else scid
    kind = 1 if version == V2 else 0
    head = bytes([0xC0 | kind << 4 | pn_bytes - 1]) + struct.pack("!I", version)
    head += bytes([len(dcid)]) + dcid + bytes([len(scid)]) + scid + encode_uint_var(len(token)) + token
    if pad_to is not None:
        frames += bytes(pad_to - len(head) - 2 - pn_bytes - len(frames) - 16)
    head += struct.pack("!H", 0x4000 | pn_bytes + len(frames) + 16)
    head += number.to_bytes(8, "big")[-pn_bytes:]
    pair = CryptoPair()
    # aioquic no longer supports draft 29; the one test that needs it passes the salt.
    pair.setup_initial(keys_of, is_client=from_client, version=version)
    return pair.encrypt_packet(head, frames, number)


def hello_datagram(number: int = 0, **changes: object) -> bytes:
    """Return the client's first datagram: a complete ClientHello in an Initial of 1252 bytes."""
    arguments: dict[str, object] = {"from_client": True, "pad_to": 1252} | changes
    return initial(crypto(HELLO), number, **arguments)  # type: ignore[arg-type]


def handshake(size: int = 200) -> bytes:
    """Return a Handshake packet to the client without keys."""
    head = b"\xe0" + struct.pack("!I", V1) + b"\x08" + CLIENT_CID + b"\x08" + SERVER_CID
    return head + struct.pack("!H", 0x4000 | size) + bytes(i * 37 & 0xFF for i in range(size))


def retry(token: bytes = b"token", *, odcid: bytes = ODCID, scid: bytes = b"\x7e" * 8) -> bytes:
    """Return a Retry packet with the right tag for `odcid`."""
    return encode_quic_retry(V1, scid, CLIENT_CID, odcid, token)


def version_negotiation(versions: list[int], *, scid: bytes = ODCID) -> bytes:
    """Return a Version Negotiation packet."""
    return encode_quic_version_negotiation(scid, CLIENT_CID, versions)


@dataclass
class CaptureBuilder:
    """Builds a capture; times in nanoseconds from its start."""

    client: tuple[str, int] = CLIENT
    server: tuple[str, int] = SERVER
    packets: list[tuple[int, bytes]] = field(default_factory=list)

    def sent(self, at_ns: int, datagram: bytes) -> CaptureBuilder:
        """Add a datagram of the client."""
        self.packets.append((at_ns, udp(self.client, self.server, datagram)))
        return self

    def came(self, at_ns: int, datagram: bytes) -> CaptureBuilder:
        """Add a datagram of the server."""
        self.packets.append((at_ns, udp(self.server, self.client, datagram)))
        return self

    def icmp(self, at_ns: int, kind: int, code: int) -> CaptureBuilder:
        """Add an ICMP error that quotes the client's first datagram."""
        quoted = udp(self.client, self.server, b"\xc0" + bytes(50))[: 28 if self.client[0].count(".") else 48]
        body = bytes([kind, code]) + bytes(6) + quoted
        self.packets.append((at_ns, ip(self.server[0], self.client[0], None, body)))
        return self

    def write(self, path: Path) -> Path:
        """Write it as pcap in nanoseconds, link type raw IP."""
        parts = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 101)]
        for at_ns, packet in sorted(self.packets, key=lambda entry: entry[0]):
            seconds, nanos = divmod(START_NS + at_ns, 1_000_000_000)
            parts.append(struct.pack("<IIII", seconds, nanos, len(packet), len(packet)) + packet)
        path.write_bytes(b"".join(parts))
        return path


def udp(src: tuple[str, int], dst: tuple[str, int], payload: bytes) -> bytes:
    """Return an IP packet with a UDP datagram (checksums zero: the reader does not check them)."""
    datagram = struct.pack("!HHHH", src[1], dst[1], 8 + len(payload), 0) + payload
    return ip(src[0], dst[0], 17, datagram)


def ip(src: str, dst: str, protocol: int | None, payload: bytes) -> bytes:
    """Return an IPv4 or IPv6 packet; without a protocol it is ICMP or ICMPv6."""
    source, destination = ipaddress.ip_address(src), ipaddress.ip_address(dst)
    if source.version == 4:
        head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(payload), 0, 0x4000, 57, protocol or 1, 0)
    else:
        head = struct.pack("!IHBB", 6 << 28, len(payload), protocol or 58, 57)
    return head + source.packed + destination.packed + payload
