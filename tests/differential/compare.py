"""Compares the dissector's rows with tshark's fields, according to the list in fields.yaml."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import yaml

from tests.differential.oracle import DecryptedPacket, Fields, TsharkDatagram
from tests.dissect.conftest import Row

HERE = Path(__file__).parent
# tshark 4.0 prints 1 and 0 instead.
BOOLEANS = {"True": 1, "False": 0}


@dataclass(frozen=True)
class FieldRule:
    """One line of fields.yaml."""

    tshark: tuple[str, ...]
    ours: str
    form: str = "number"
    mask: int | None = None
    shift: int = 0
    of: frozenset[Any] | None = None
    opened: bool = False
    known: bool = False

    @property
    def name(self) -> str:
        return self.tshark[0]


def fields(scope: str) -> list[FieldRule]:
    """Return the fields in a scope in fields.yaml."""
    listed = yaml.safe_load((HERE / "fields.yaml").read_text())[scope]
    return [
        FieldRule(
            tshark=tuple(entry["tshark"]) if isinstance(entry["tshark"], list) else (entry["tshark"],),
            ours=entry["ours"],
            form=entry.get("as", "number"),
            mask=entry.get("mask"),
            shift=entry.get("shift", 0),
            of=frozenset(entry["of"]) if "of" in entry else None,
            opened=entry.get("opened", False),
            known=entry.get("known", False),
        )
        for entry in listed
    ]


@dataclass(frozen=True)
class Difference:
    """A field with different values in tshark and the dissector."""

    capture: str
    frame: int
    packet: int
    field: str
    ours: object
    theirs: object


class Comparison:
    """Compares one capture; `compared` counts the values per tshark field."""

    def __init__(self, capture: Path) -> None:
        self.capture = capture.stem
        self.compared: Counter[str] = Counter()
        self.differences: list[Difference] = []
        # Packets that only one side decrypted, by type.
        self.only_ours: Counter[str] = Counter()
        self.only_theirs: Counter[str] = Counter()
        self._datagram, self._packet, self._frame = fields("datagram"), fields("packet"), fields("frame")
        self._tcp = fields("tcp")

    def datagram(self, rows: list[Row], theirs: TsharkDatagram) -> None:
        """Compare a datagram: its quic_packet rows and tshark's packets."""
        number = int(theirs.fields["frame.number"][0])
        for field in self._datagram:
            self._compare_field(number, 0, field, _of_datagram(rows[0]), theirs.fields)
        packets = [packet for packet in theirs.packets if not packet.is_padding]
        if len(packets) == len(rows) + 1 and packets[-1].is_unread:
            packets.pop()
        if len(packets) != len(rows):
            kinds = [row["type"] for row in rows]
            self.differences.append(Difference(self.capture, number, 0, "packet", kinds, len(packets)))
            return
        for place, (row, packet) in enumerate(zip(rows, packets, strict=True)):
            if not packet.is_unread:
                self._compare_packet(number, place, row, packet)

    def segment(self, row: Row, theirs: Fields) -> None:
        """Compare a TCP segment: its tcp_packet row, as segments.py converts it, and tshark's fields."""
        for field in self._tcp:
            self._compare_field(row["frame_number"], 0, field, row, theirs)

    def _compare_packet(self, number: int, place: int, row: Row, packet: DecryptedPacket) -> None:
        details = None if row["frame_details"] is None else json.loads(row["frame_details"])
        both = row["opened"] and packet.opened
        for field in self._packet:
            if field.opened and not both:
                continue
            has = field.of is None or row["type"] in field.of
            if not has and any(
                other.name == field.name and row["type"] in (other.of or ()) for other in self._packet
            ):
                continue
            if field.known and not packet.fields.get(field.name):
                continue
            self._compare_field(number, place, field, row if has else {}, packet.fields)
        if not both or details is None:
            self.only_ours[row["type"]] += row["opened"] and not packet.opened
            self.only_theirs[row["type"]] += packet.opened and not row["opened"]
            return
        if len(details) != len(packet.frames):
            kinds = [frame["type"] for frame in details]
            found = [frame["quic.frame_type"] for frame in packet.frames]
            self.differences.append(Difference(self.capture, number, place, "quic.frame", kinds, found))
            return
        for frame, theirs in zip(details, packet.frames, strict=True):
            kind = frame["type"]
            names: dict[str, bool] = {}
            for field in self._frame:
                if field.of is None or kind in field.of:
                    names[field.name] = True
                    self._compare_field(number, place, field, frame, theirs)
            # A frame has the fields for its type, and no other listed field.
            for field in self._frame:
                if field.name not in names:
                    self._compare_field(number, place, field, {}, theirs)

    def _compare_field(self, number: int, place: int, field: FieldRule, row: Row, theirs: Fields) -> None:
        found = [value for name in field.tshark for value in theirs.get(name, [])]
        ours, other = list(_ours(field, row.get(field.ours))), [_theirs(field.form, value) for value in found]
        if field.form in ("bytes", "text", "size"):
            # tshark has no field for an empty byte string.
            ours = [value for value in ours if value not in ("", 0)]
            other = [value for value in other if value not in ("", 0)]
        if field.form == "has":
            # Some marks occur twice in tshark's tree.
            other = other[:1]
        if ours == other:
            self.compared[field.name] += len(ours)
        else:
            self.differences.append(Difference(self.capture, number, place, field.name, ours, other))


def _of_datagram(row: Row) -> Row:
    """Return the fields that all rows for a datagram share."""
    shared = {name: row[name] for name in ("src_ip", "src_port", "dst_ip", "dst_port")}
    return shared | {
        "frame_number": row["frame_number"],
        "time_ns": row["time_ns"],
        "udp_length": row["datagram_size"] + 8,
    }


def _ours(field: FieldRule, value: object) -> Iterator[object]:
    if value is None:
        return
    if field.ours == "version_list":
        yield from (int(version, 0) for version in str(value).split(","))
    elif isinstance(value, list):
        yield from value
    elif field.form == "count":
        yield len(str(value)) // 2
    elif field.form == "length":
        yield len(str(value).encode())
    elif field.form in ("bytes", "text"):
        yield str(value)
    else:
        number = int(value, 0) if isinstance(value, str) else int(value)  # type: ignore[call-overload]
        yield number if field.mask is None else (number & field.mask) >> field.shift


def _theirs(form: str, value: str) -> object:
    if form == "bytes":
        return value.replace(":", "")
    if form == "text":
        return value
    if form == "size":
        return len(value.replace(":", "")) // 2
    if form == "ns":
        return int(Decimal(value) * 1_000_000_000)
    if form == "us":
        return int(Decimal(value) * 1_000_000)
    if form == "has":
        return 1
    return BOOLEANS[value] if value in BOOLEANS else int(value, 0)
