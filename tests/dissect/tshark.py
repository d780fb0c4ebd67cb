"""Reads captures with tshark, packet by packet: the oracle for headers and frames."""

from __future__ import annotations

import re
import subprocess
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest


@dataclass(frozen=True)
class TsharkPacket:
    """A QUIC packet. `frames` has quic_packet's notation, or is null if tshark did not decrypt the packet."""

    frame_number: int
    type: str
    dcid: str | None
    scid: str | None
    packet_number: int | None
    size: int
    frames: str | None


# A coalesced 1-RTT packet to a connection ID unknown to tshark.
UNREAD = "unread"
TYPES = {"0": "initial", "1": "0rtt", "2": "handshake", "3": "retry"}
# The dissector classifies TCP segments like this version (docs/definitions.md).
REFERENCE = (4, 0)


@cache
def version() -> tuple[int, int]:
    """Return the first two numbers of tshark's version: (4, 0) in Debian 12, (4, 4) in Debian 13."""
    done = subprocess.run(["tshark", "--version"], capture_output=True, check=True, text=True)
    found = re.match(r"TShark \(Wireshark\) (\d+)\.(\d+)\.", done.stdout)
    assert found, done.stdout
    return int(found[1]), int(found[2])


def only_with_the_reference(rule: str) -> None:
    """Skip the test if the installed tshark is not the reference; `rule` says what other versions change."""
    if version() != REFERENCE:
        reference, installed = (".".join(map(str, found)) for found in (REFERENCE, version()))
        pytest.skip(f"the reference is tshark {reference}, and this is {installed}: {rule}")


def pdml_argv(capture: Path, keys: Path | None, *options: str) -> list[str]:
    """Return a command that prints a capture's QUIC frames as PDML, decrypted with the key log `keys`."""
    argv = ["tshark", *options, "-r", str(capture), "-Y", "quic && !icmp", "-T", "pdml"]
    # If HTTP/3 fails to reassemble data that was sent again, tshark 4.4 stops in the middle of a packet.
    argv += ["--disable-protocol", "http3"]
    return argv if keys is None else [*argv, "-o", f"tls.keylog_file:{keys}"]


def is_padding(frame: ElementTree.Element, quic: ElementTree.Element) -> bool:
    """Return whether a QUIC layer of a frame is the zeros after the last packet of a datagram.

    tshark 4.0 shows a short header or padding. tshark 4.4 shows padding, as for a packet that it cannot
    read (UNREAD).
    """
    (payload,) = frame.findall("proto[@name='udp']/field[@name='udp.payload']")
    start = int(quic.get("pos") or 0) - int(payload.get("pos") or 0)
    content = bytes.fromhex(payload.get("value") or "")[start:]
    return len(content) >= int(quic.get("size") or 0) > 0 and not any(content)


def packets(capture: Path, keys: Path | None = None) -> list[TsharkPacket]:
    """Return packets in a capture in QUIC version 1, in order; decrypted with the key log `keys`."""
    done = subprocess.run(pdml_argv(capture, keys), capture_output=True, check=True)
    return list(_packets(ElementTree.fromstring(done.stdout)))


def _packets(root: ElementTree.Element) -> Iterator[TsharkPacket]:
    for frame in root.iter("packet"):
        number = int(_show(frame.find("proto[@name='frame']"), "frame.number") or 0)
        for quic in frame.findall("proto[@name='quic']"):
            if is_padding(frame, quic):
                continue
            names = {field.get("name") for field in quic.iter("field")}
            short = "quic.short" in names
            if "quic.coalesced_padding_data" in names:
                yield TsharkPacket(number, UNREAD, None, None, None, int(quic.get("size") or 0), None)
                continue
            kind = "1rtt" if short else TYPES[_show(quic, "quic.long.packet_type") or ""]
            packet_number = _show(quic, "quic.packet_number")
            frames = [_frame(field) for field in quic.iter("field") if field.get("name") == "quic.frame"]
            yield TsharkPacket(
                frame_number=number,
                type=kind,
                dcid=None if short else _hex(quic, "quic.dcid"),
                scid=None if short else _hex(quic, "quic.scid"),
                packet_number=None if packet_number is None else int(packet_number),
                size=int(_show(quic, "quic.packet_length") or 0),
                frames="; ".join(frames) if frames else None,
            )


# For these frames only the name is compared (RFC 9000 19, table 3).
NAMES = {
    0x01: "ping",
    0x04: "reset_stream",
    0x05: "stop_sending",
    0x07: "new_token",
    0x10: "max_data",
    0x11: "max_stream_data",
    0x12: "max_streams",
    0x13: "max_streams",
    0x18: "new_connection_id",
    0x19: "retire_connection_id",
    0x1A: "path_challenge",
    0x1B: "path_response",
    0x1E: "handshake_done",
}


def _frame(field: ElementTree.Element) -> str:
    kind = int(_show(field, "quic.frame_type") or "-1", 0)
    if kind == 0:
        length = _show(field, "quic.padding_length")
        return f"padding {length or 1}"
    if kind in (2, 3):
        return f"ack {_ranges(field)} delay {_show(field, 'quic.ack.ack_delay')}"
    if kind == 6:
        return f"crypto {_show(field, 'quic.crypto.offset')}+{_show(field, 'quic.crypto.length')}"
    if 0x08 <= kind <= 0x0F:
        stream = _show(field, "quic.stream.stream_id")
        offset = _show(field, "quic.stream.offset") or "0"
        data = _show(field, "quic.stream_data") or ""
        length = _show(field, "quic.stream.length") or str(len(data.replace(":", "")) // 2)
        return f"stream {stream} {offset}+{length}{' fin' if kind & 1 else ''}"
    if kind in (0x1C, 0x1D):
        name = "connection_close" if kind == 0x1C else "application_close"
        code = _show(field, "quic.cc.error_code" if kind == 0x1C else "quic.cc.error_code.app")
        reason = _show(field, "quic.cc.reason_phrase") or ""
        return f'{name} {int(code or "0", 0):#x} "{reason}"'
    return NAMES[kind]


def _ranges(field: ElementTree.Element) -> str:
    """Return acknowledged packet numbers, largest first."""
    largest = int(_show(field, "quic.ack.largest_acknowledged") or 0)
    first = int(_show(field, "quic.ack.first_ack_range") or 0)
    gaps = [int(f.get("show") or 0) for f in field.iter("field") if f.get("name") == "quic.ack.gap"]
    lengths = [int(f.get("show") or 0) for f in field.iter("field") if f.get("name") == "quic.ack.ack_range"]
    spans = [(largest - first, largest)]
    for gap, length in zip(gaps, lengths, strict=True):
        high = spans[-1][0] - gap - 2
        spans.append((high - length, high))
    return ",".join(str(high) if low == high else f"{low}-{high}" for low, high in spans)


def _show(element: ElementTree.Element | None, name: str) -> str | None:
    if element is None:
        return None
    field = next((f for f in element.iter("field") if f.get("name") == name), None)
    return None if field is None else field.get("show")


def _hex(quic: ElementTree.Element, name: str) -> str:
    return (_show(quic, name) or "").replace(":", "")
