"""Reads tshark's fields for a capture: QUIC packets per UDP datagram, and frames per packet."""

from __future__ import annotations

import subprocess
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

Fields = dict[str, list[str]]


@dataclass
class DecryptedPacket:
    """A QUIC packet: fields of the header, and fields of each frame if tshark decrypted the packet."""

    fields: Fields
    frames: list[Fields] = field(default_factory=list)

    @property
    def opened(self) -> bool:
        """Return whether tshark decrypted the packet."""
        return bool(self.frames)

    @property
    def is_padding(self) -> bool:
        """Return whether these are zeros after a datagram's last packet. tshark shows a short header."""
        return "quic.short" in self.fields and self.fields.get("quic.fixed_bit") == ["0"]

    @property
    def is_unread(self) -> bool:
        """Return whether tshark skips it: zeros after the last packet, or a header with an unknown ID."""
        return "quic.coalesced_padding_data" in self.fields or "quic.packet_length" not in self.fields


@dataclass
class TsharkDatagram:
    """A captured frame that contains QUIC."""

    fields: Fields
    packets: list[DecryptedPacket]


def datagrams(capture: Path, keys: Path | None) -> Iterator[TsharkDatagram]:
    """Yield the frames of `capture` in which tshark finds QUIC, in two passes and with `keys`."""
    argv = ["tshark", "-2", "-r", str(capture), "-Y", "quic && !icmp", "-T", "pdml"]
    if keys is not None:
        argv += ["-o", f"tls.keylog_file:{keys}"]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    for _, element in ElementTree.iterparse(process.stdout):
        if element.tag == "packet":
            fields = _below([proto for proto in element.findall("proto") if proto.get("name") != "quic"])
            yield TsharkDatagram(fields, [_packet(quic) for quic in element.findall("proto[@name='quic']")])
            element.clear()
    assert process.wait() == 0, f"tshark could not read {capture}"


def _packet(quic: ElementTree.Element) -> DecryptedPacket:
    packet = DecryptedPacket({})
    for child in quic:
        if child.get("name") == "quic.frame":
            packet.frames.append(_below([child]))
    header = [child for child in quic if child.get("name") != "quic.frame"]
    packet.fields = _below(header)
    return packet


def _below(elements: list[ElementTree.Element]) -> Fields:
    """Return names and values of `elements` and their fields, without protocols inside QUIC."""
    found: Fields = {}
    waiting = list(reversed(elements))
    while waiting:
        element = waiting.pop()
        if element.get("name") and element.tag == "field":
            found.setdefault(str(element.get("name")), []).append(element.get("show") or "")
        waiting += reversed([child for child in element if child.tag == "field"])
    return found
