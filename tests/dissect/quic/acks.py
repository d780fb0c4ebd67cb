"""Expected quic_ack rows for a capture with one connection, computed from tshark's packets."""

from __future__ import annotations

import subprocess
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.dissect.tshark import TYPES, is_padding, pdml_argv

TAG_BYTES = 16
NOT_ELICITING = {0x00, 0x02, 0x03, 0x1C, 0x1D}
SPACES = {"initial": "initial", "handshake": "handshake", "0rtt": "1rtt", "1rtt": "1rtt"}


@dataclass
class Frame:
    """A frame: its type, its bytes on the wire; of an ACK the ranges (low, high), delay and ECN counts."""

    type: int
    size: int
    ranges: list[tuple[int, int]] = field(default_factory=list)
    delay: int = 0
    ecn: tuple[int, int, int] | None = None

    @property
    def is_ack(self) -> bool:
        return self.type in (2, 3)


@dataclass
class AckPacket:
    """A packet that tshark decrypted; `alone`: its datagram has no other packet."""

    side: str
    ns: int
    ip_bytes: int
    datagram: int
    space: str
    number: int
    size: int
    frames: list[Frame]

    @property
    def is_eliciting(self) -> bool:
        return any(frame.type not in NOT_ELICITING for frame in self.frames)

    @property
    def is_ack_only(self) -> bool:
        types = {frame.type for frame in self.frames}
        return bool(types & {2, 3}) and types <= {0, 2, 3}


@dataclass
class AckCapture:
    """All packets, and each side's transport parameters as far as they are about acknowledgements."""

    packets: list[AckPacket]
    parameters: dict[str, dict[str, int]]
    # Packets of each datagram, decrypted or not.
    in_datagram: dict[int, int]


def read(capture: Path, keys: Path) -> AckCapture:
    """Read a capture with one connection of QUIC version 1; AssertionError if a packet is not decrypted."""
    done = subprocess.run(pdml_argv(capture, keys), capture_output=True, check=True)
    found = AckCapture([], {"client": {}, "server": {}}, defaultdict(int))
    server_port: str | None = None
    seen = set()
    for frame in ElementTree.fromstring(done.stdout).iter("packet"):
        server_port = server_port or _show(frame, "udp.dstport")
        side = "server" if _show(frame, "udp.srcport") == server_port else "client"
        seconds, fraction = (_show(frame, "frame.time_epoch") or "").split(".")
        length = _show(frame, "ip.len") or str(int(_show(frame, "ipv6.plen") or 0) + 40)
        for quic in frame.findall("proto[@name='quic']"):
            if is_padding(frame, quic):
                continue
            names = {field.get("name") for field in quic.iter("field")}
            datagram = int(_show(frame, "frame.number") or 0)
            found.in_datagram[datagram] += 1
            frames = list(_frames(quic))
            assert frames, f"tshark decrypts no packet in frame {datagram}"
            kind = "1rtt" if "quic.short" in names else TYPES[_show(quic, "quic.long.packet_type") or ""]
            for name in ("max_ack_delay", "ack_delay_exponent"):
                value = _show(quic, f"tls.quic.parameter.{name}")
                if value is not None:
                    found.parameters[side].setdefault(name, int(value))
            if _show(quic, "tls.quic.parameter.type") is not None:
                found.parameters[side].setdefault("known", 1)
            packet = AckPacket(
                side,
                int(seconds) * 10**9 + int(fraction.ljust(9, "0")),
                int(length),
                datagram,
                SPACES[kind],
                int(_show(quic, "quic.packet_number") or -1),
                int(_show(quic, "quic.packet_length") or 0),
                frames,
            )
            if (side, packet.space, packet.number) not in seen:
                seen.add((side, packet.space, packet.number))
                found.packets.append(packet)
    return found


def _frames(quic: ElementTree.Element) -> Iterator[Frame]:
    for element in quic.iter("field"):
        if element.get("name") != "quic.frame":
            continue
        kind = int(_show(element, "quic.frame_type") or "-1", 0)
        frame = Frame(kind, int(element.get("size") or 0))
        if frame.is_ack:
            high = int(_show(element, "quic.ack.largest_acknowledged") or 0)
            low = high - int(_show(element, "quic.ack.first_ack_range") or 0)
            frame.ranges.append((low, high))
            frame.delay = int(_show(element, "quic.ack.ack_delay") or 0)
            for gap, length in zip(
                _all(element, "quic.ack.gap"), _all(element, "quic.ack.ack_range"), strict=True
            ):
                high = low - gap - 2
                low = high - length
                frame.ranges.append((low, high))
            counts = [_all(element, f"quic.ack.{name}_count") for name in ("ect0", "ect1", "ecn_ce")]
            if kind == 3:
                frame.ecn = (counts[0][0], counts[1][0], counts[2][0])
        yield frame


def expected(capture: AckCapture, side: str, at: str | None) -> dict[str, Any]:
    """Return the columns of `side`'s row; `at`: where the capture was made."""
    of_side = [packet for packet in capture.packets if packet.side == side]
    peer = [packet for packet in capture.packets if packet.side != side and packet.space == "1rtt"]
    sent = [packet for packet in of_side if packet.space == "1rtt"]
    known = capture.parameters[side]
    max_ns = known.get("max_ack_delay", 25) * 1_000_000
    factor = 2 ** known.get("ack_delay_exponent", 3)
    acks = [packet for packet in sent if any(frame.is_ack for frame in packet.frames)]
    frames = [frame for packet in sent for frame in packet.frames if frame.is_ack]
    acked = {n for frame in frames for low, high in frame.ranges for n in range(low, high + 1)}
    numbers = {packet.number for packet in peer}
    eliciting = {packet.number: packet for packet in peer if packet.is_eliciting}
    story = _story(capture, side)
    per_ack = [len(new) for new, _, _ in story.values()]
    first = [len(new) for new, arrived, _ in story.values() if arrived <= 100]
    after = [len(new) for new, arrived, _ in story.values() if arrived > 100]
    by_order = by_timer = 0
    waits = []
    for packet in acks:
        new, _, in_order = story[packet.number]
        if not new:
            continue
        waits.append(packet.ns - min(eliciting[n].ns for n in new))
        by_order += not in_order
        by_timer += in_order and waits[-1] >= max_ns - 1_000_000
    alone = _only_acks(capture, side)
    row: dict[str, Any] = {
        "packets": len(sent),
        "eliciting_sent": sum(packet.is_eliciting for packet in sent),
        "peer_packets": len(peer),
        "peer_eliciting": len(eliciting),
        "peer_eliciting_acked": len(set(eliciting) & acked),
        "ack_only_ip_bytes": sum(alone),
        "ack_only_ip_bytes_p50": quantile(alone, 0.5),
        "ack_only_ip_bytes_max": max(alone, default=None),
        "ack_frame_bytes": sum(frame.size for frame in frames),
        "eliciting_per_ack": mean(per_ack),
        "eliciting_per_ack_p50": quantile(per_ack, 0.5),
        "eliciting_per_ack_p90": quantile(per_ack, 0.9),
        "eliciting_per_ack_max": max(per_ack, default=None),
        "eliciting_per_ack_first100": mean(first),
        "eliciting_per_ack_after100": mean(after),
        "max_ack_delay_us": max_ns // 1000 if known else None,
        "ack_delay_exponent": known.get("ack_delay_exponent", 3) if known else None,
        "delay_field_p50_us": quantile([frame.delay * factor for frame in frames], 0.5),
        "delay_field_max_us": max((frame.delay * factor for frame in frames), default=None),
        "ranges_mean": mean([len(frame.ranges) for frame in frames]),
        "ranges_max": max((len(frame.ranges) for frame in frames), default=None),
        "packet_number_gaps": max(numbers, default=-1) + 1 - len(numbers),
        "reordered": sum(p.number < max(q.number for q in peer[: i + 1]) for i, p in enumerate(peer)),
        "acked_unseen": len(acked - numbers),
        "ecn_acks": sum(frame.ecn is not None for frame in frames),
        **dict(zip(("ect0", "ect1", "ce"), _last_ecn(frames), strict=True)),
        "ack_frequency_frames": sum(frame.type == 0xAF for packet in peer for frame in packet.frames),
        "immediate_ack_frames": sum(frame.type in (0x1F, 0xAC) for packet in peer for frame in packet.frames),
    }
    for space, ending in (("1rtt", ""), ("initial", "_initial"), ("handshake", "_handshake")):
        having = [p for p in of_side if p.space == space and any(frame.is_ack for frame in p.frames)]
        only = sum(packet.is_ack_only for packet in having)
        row |= {f"ack_packets{ending}": len(having), f"ack_only_packets{ending}": only}
        row[f"bundled_packets{ending}"] = len(having) - only
    timed = {
        "acks_by_reordering": by_order,
        "acks_by_timer": by_timer,
        "acks_by_count": len(waits) - by_order - by_timer,
        "wait_p50_us": _us(quantile(waits, 0.5)),
        "wait_p90_us": _us(quantile(waits, 0.9)),
        "wait_max_us": _us(max(waits, default=None)),
        "waits_over_max_ack_delay": sum(wait > max_ns for wait in waits),
    }
    return row | (timed if at == side else dict.fromkeys(timed)) | _bytes(of_side)


def _story(capture: AckCapture, side: str) -> dict[int, tuple[set[int], int, bool]]:
    """Return three values per ACK packet of a side: the ack-eliciting packets that it newly acknowledges, the
    number of ack-eliciting packets that arrived before it, and whether the peer's last packet before it had
    the number after the highest earlier one."""
    found: dict[int, tuple[set[int], int, bool]] = {}
    waiting: set[int] = set()
    acked: set[int] = set()
    arrived, highest, in_order = 0, -1, True
    for packet in (one_rtt for one_rtt in capture.packets if one_rtt.space == "1rtt"):
        if packet.side != side:
            in_order = packet.number == highest + 1
            highest = max(highest, packet.number)
            if packet.is_eliciting:
                arrived += 1
                waiting |= {packet.number} - acked
            continue
        ranges = [span for frame in packet.frames if frame.is_ack for span in frame.ranges]
        if ranges:
            covered = {n for low, high in ranges for n in range(low, high + 1)}
            found[packet.number] = (waiting & covered, arrived, in_order)
            waiting -= covered
            acked |= covered
    return found


def _only_acks(capture: AckCapture, side: str) -> list[int]:
    """Return the IP lengths of datagrams with nothing but 1-RTT packets that only acknowledge."""
    only: dict[int, list[AckPacket]] = defaultdict(list)
    for packet in capture.packets:
        if packet.side == side and packet.space == "1rtt" and packet.is_ack_only:
            only[packet.datagram].append(packet)
    return [
        in_datagram[0].ip_bytes
        for at, in_datagram in only.items()
        if len(in_datagram) == capture.in_datagram[at]
    ]


def _bytes(packets: list[AckPacket]) -> dict[str, int]:
    frames = [frame for packet in packets for frame in packet.frames]
    found = {
        "bytes_tags": TAG_BYTES * len(packets),
        "bytes_ack": sum(frame.size for frame in frames if frame.is_ack),
        "bytes_crypto": sum(frame.size for frame in frames if frame.type == 6),
        "bytes_stream": sum(frame.size for frame in frames if 8 <= frame.type <= 15),
        "bytes_padding": sum(frame.size for frame in frames if frame.type == 0),
    }
    of_frames = sum(frame.size for frame in frames)
    others = of_frames - (sum(found.values()) - found["bytes_tags"])
    headers = sum(packet.size for packet in packets) - of_frames - found["bytes_tags"]
    return found | {"bytes_headers": headers, "bytes_other": others}


def _last_ecn(frames: list[Frame]) -> tuple[int | None, ...]:
    return next((frame.ecn for frame in reversed(frames) if frame.ecn is not None), (None, None, None))


def mean(values: list[int]) -> float | None:
    return sum(values) / len(values) if values else None


def quantile(values: list[int], share: float) -> int | None:
    """Return a quantile by linear interpolation between neighbours, floored."""
    if not values:
        return None
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    high = ordered[min(below + 1, len(ordered) - 1)]
    return ordered[below] + int((high - ordered[below]) * (place - below))


def _us(ns: int | None) -> int | None:
    return None if ns is None else ns // 1000


def _show(element: ElementTree.Element, name: str) -> str | None:
    return next((field.get("show") for field in element.iter("field") if field.get("name") == name), None)


def _all(element: ElementTree.Element, name: str) -> list[int]:
    return [int(field.get("show") or 0) for field in element.iter("field") if field.get("name") == name]
