"""Servers that no stack can imitate: a function answers raw TCP and UDP packet by packet.

The test's namespace has a pair of interfaces. Programs send through the first (10.77.0.1, fd77::1). A thread
reads from the second, which has no addresses, so the kernel does not answer. Every address of 10.77.0.0/16
and fd77::/16 is a server.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

ALLOW = ("--allow-net", "10.77.0.0/16", "--allow-net", "fd77::/16")
NEAR, FAR = "field0", "field1"
TCP, UDP = 6, 17
SYN, RST, ACK, ECE, CWR, AE = 0x02, 0x04, 0x10, 0x40, 0x80, 0x100
# MSS 1460, SACK permitted, window scale 7 (RFC 9293 3.2, RFC 2018 2, RFC 7323 2.2).
OPTIONS = bytes.fromhex("020405b4 0402 01 030307 0000")
_LARGEST = 65_535


@dataclass(frozen=True)
class IpPacket:
    """A packet without its IP header; addresses are in network order."""

    source: bytes
    destination: bytes
    protocol: int
    payload: bytes

    @property
    def server(self) -> str:
        """The address that it was sent to."""
        return str(ipaddress.ip_address(self.destination))

    @property
    def ports(self) -> tuple[int, int]:
        """Source and destination."""
        source, destination = struct.unpack("!HH", self.payload[:4])
        return source, destination

    @property
    def flags(self) -> int:
        """AE, CWR, ECE and the others in a TCP header (RFC 9768 3.1.2)."""
        return int(struct.unpack("!H", self.payload[12:14])[0]) & 0x1FF


AnswerFunction = Callable[[IpPacket], Iterable[bytes]]
"""Returns the TCP segments or UDP datagrams, without IP header, that answer a packet."""


def syn_ack(packet: IpPacket, flags: int, options: bytes = OPTIONS) -> bytes:
    """Return a segment that acknowledges the SYN `packet`, with these flags besides SYN and ACK."""
    source, destination = packet.ports
    (number,) = struct.unpack("!I", packet.payload[4:8])
    length = (20 + len(options)) // 4 << 12
    head = struct.pack("!HHII", destination, source, 1000, (number + 1) % 2**32)
    return head + struct.pack("!HHHH", length | SYN | ACK | flags, 65_000, 0, 0) + options


def reset(packet: IpPacket) -> bytes:
    """Return a reset without ACK. A client must ignore it as an answer to its SYN (RFC 9293 3.10.7.3)."""
    source, destination = packet.ports
    return struct.pack("!HHIIHHHH", destination, source, 0, 0, 5 << 12 | RST, 0, 0, 0)


def datagram(packet: IpPacket, content: bytes) -> bytes:
    """Return a UDP datagram that answers `packet` from the port that it went to."""
    source, destination = packet.ports
    return struct.pack("!HHHH", destination, source, 8 + len(content), 0) + content


@contextmanager
def responding(answer: AnswerFunction, pcap: Path | None = None) -> Iterator[None]:
    """Answer packets within the block; write all packets in both directions to the capture `pcap`."""
    steps = (
        f"link add {NEAR} mtu {_LARGEST} type veth peer name {FAR} mtu {_LARGEST}",
        f"addr add 10.77.0.1/16 dev {NEAR}",
        f"addr add fd77::1/16 dev {NEAR} nodad",
        f"link set {NEAR} arp off up",
        f"link set {FAR} arp off up",
    )
    for step in steps:
        subprocess.run(["ip", *step.split()], check=True)
    try:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as raw:
            raw.bind((FAR, 0))
            raw.settimeout(0.05)
            stop = threading.Event()
            thread = threading.Thread(target=_serve, args=(raw, answer, pcap, stop))
            thread.start()
            try:
                yield
            finally:
                stop.set()
                thread.join()
    finally:
        subprocess.run(["ip", "link", "del", NEAR], check=True)


def _serve(raw: socket.socket, answer: AnswerFunction, pcap: Path | None, stop: threading.Event) -> None:
    with (pcap or Path(os.devnull)).open("wb") as capture:
        # Classic pcap in microseconds, of Ethernet.
        capture.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262_144, 1))
        while not stop.is_set():
            with suppress(TimeoutError):
                frame, origin = raw.recvfrom(_LARGEST + 14)
                if origin[2] == socket.PACKET_OUTGOING:
                    continue
                _keep(capture, frame)
                packet = _packet(frame[14:])
                for payload in answer(packet) if packet else ():
                    assert packet is not None
                    back = frame[6:12] + frame[:6] + frame[12:14] + _ip(packet, payload)
                    raw.send(back)
                    _keep(capture, back)


def _keep(capture: BinaryIO, frame: bytes) -> None:
    seconds, microseconds = divmod(time.time_ns() // 1000, 1_000_000)
    capture.write(struct.pack("<IIII", seconds, microseconds, len(frame), len(frame)) + frame)


def _packet(ip: bytes) -> IpPacket | None:
    """Read the IP header; return null unless the packet is TCP or UDP."""
    if ip[0] >> 4 == 4:
        found = IpPacket(ip[12:16], ip[16:20], ip[9], ip[4 * (ip[0] & 15) : struct.unpack("!H", ip[2:4])[0]])
    else:
        found = IpPacket(ip[8:24], ip[24:40], ip[6], ip[40:])
    return found if found.protocol in (TCP, UDP) else None


def _ip(answered: IpPacket, payload: bytes) -> bytes:
    """Return the IP packet with `payload`, and with right checksums."""
    source, destination, protocol = answered.destination, answered.source, answered.protocol
    pseudo = source + destination + struct.pack("!IxxxB", len(payload), protocol)
    at = 16 if protocol == TCP else 6
    payload = payload[:at] + struct.pack("!H", _checksum(pseudo + payload) or 0xFFFF) + payload[at + 2 :]
    if len(source) == 16:
        return struct.pack("!IHBB", 6 << 28, len(payload), protocol, 64) + source + destination + payload
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(payload), 0, 0, 64, protocol, 0) + source + destination
    return head[:10] + struct.pack("!H", _checksum(head)) + head[12:] + payload


def _checksum(data: bytes) -> int:
    """Return the Internet checksum (RFC 1071)."""
    data += bytes(len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return int(~total & 0xFFFF)
