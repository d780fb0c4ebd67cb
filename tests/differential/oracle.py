"""Reads tshark's fields for a capture: QUIC packets per UDP datagram, and frames per packet."""

from __future__ import annotations

import subprocess
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.dissect import tshark

Fields = dict[str, list[str]]


@dataclass
class DecryptedPacket:
    """A QUIC packet: fields of the header, and fields of each frame if tshark decrypted the packet."""

    fields: Fields
    # Whether these are the zeros after a datagram's last packet.
    is_padding: bool
    frames: list[Fields] = field(default_factory=list)

    @property
    def opened(self) -> bool:
        """Return whether tshark decrypted the packet."""
        return bool(self.frames)

    @property
    def is_unread(self) -> bool:
        """Return whether tshark skips it: a header with an unknown ID."""
        return "quic.coalesced_padding_data" in self.fields or "quic.packet_length" not in self.fields


@dataclass
class TsharkDatagram:
    """A captured frame that contains QUIC."""

    fields: Fields
    packets: list[DecryptedPacket]


def datagrams(capture: Path, keys: Path | None) -> Iterator[TsharkDatagram]:
    """Yield the frames of `capture` in which tshark finds QUIC, in two passes and with `keys`."""
    argv = tshark.pdml_argv(capture, keys, "-2")
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    for _, element in ElementTree.iterparse(process.stdout):
        if element.tag == "packet":
            fields = _below([proto for proto in element.findall("proto") if proto.get("name") != "quic"])
            layers = element.findall("proto[@name='quic']")
            yield TsharkDatagram(fields, [_packet(quic, tshark.is_padding(element, quic)) for quic in layers])
            element.clear()
    assert process.wait() == 0, f"tshark could not read {capture}"


def _packet(quic: ElementTree.Element, is_padding: bool) -> DecryptedPacket:
    packet = DecryptedPacket({}, is_padding)
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
