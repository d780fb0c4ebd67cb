"""tshark's reading of a capture, packet by packet: the oracle for headers and frames."""

from __future__ import annotations

import subprocess
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Packet:
    """One QUIC packet. `frames` in the words of quic_packet; None if tshark did not open it."""

    frame_number: int
    type: str
    dcid: str | None
    scid: str | None
    packet_number: int | None
    size: int
    frames: str | None


# A coalesced 1-RTT packet to a connection ID that tshark does not know.
UNREAD = "unread"
TYPES = {"0": "initial", "1": "0rtt", "2": "handshake", "3": "retry"}


def packets(capture: Path) -> list[Packet]:
    """Packets of a capture in QUIC version 1, in order."""
    argv = ["tshark", "-r", str(capture), "-Y", "quic && !icmp", "-T", "pdml"]
    done = subprocess.run(argv, capture_output=True, check=True)
    return list(_packets(ElementTree.fromstring(done.stdout)))


def _packets(root: ElementTree.Element) -> Iterator[Packet]:
    for frame in root.iter("packet"):
        number = int(_show(frame.find("proto[@name='frame']"), "frame.number") or 0)
        for quic in frame.findall("proto[@name='quic']"):
            names = {field.get("name") for field in quic.iter("field")}
            short = "quic.short" in names
            # The zeros behind a datagram's last packet are taken for a header without fixed bit.
            if short and _show(quic, "quic.fixed_bit") == "0":
                continue
            if "quic.coalesced_padding_data" in names:
                yield Packet(number, UNREAD, None, None, None, int(quic.get("size") or 0), None)
                continue
            kind = "1rtt" if short else TYPES[_show(quic, "quic.long.packet_type") or ""]
            packet_number = _show(quic, "quic.packet_number")
            frames = [_frame(field) for field in quic.iter("field") if field.get("name") == "quic.frame"]
            yield Packet(
                frame_number=number,
                type=kind,
                dcid=None if short else _hex(quic, "quic.dcid"),
                scid=None if short else _hex(quic, "quic.scid"),
                packet_number=None if packet_number is None else int(packet_number),
                size=int(_show(quic, "quic.packet_length") or 0),
                frames="; ".join(frames) if frames else None,
            )


def _frame(field: ElementTree.Element) -> str:
    kind = int(_show(field, "quic.frame_type") or "-1", 0)
    if kind == 0:
        length = _show(field, "quic.padding_length")
        return f"padding {length or 1}"
    if kind in (2, 3):
        largest = int(_show(field, "quic.ack.largest_acknowledged") or 0)
        smallest = largest - int(_show(field, "quic.ack.first_ack_range") or 0)
        assert _show(field, "quic.ack.ack_range_count") == "0"
        span = str(largest) if smallest == largest else f"{smallest}-{largest}"
        return f"ack {span} delay {_show(field, 'quic.ack.ack_delay')}"
    if kind == 6:
        return f"crypto {_show(field, 'quic.crypto.offset')}+{_show(field, 'quic.crypto.length')}"
    return {1: "ping"}[kind]


def _show(element: ElementTree.Element | None, name: str) -> str | None:
    if element is None:
        return None
    field = next((f for f in element.iter("field") if f.get("name") == name), None)
    return None if field is None else field.get("show")


def _hex(quic: ElementTree.Element, name: str) -> str:
    return (_show(quic, name) or "").replace(":", "")
