"""Compares the dissector's rows with tshark's fields, by the list in fields.yaml."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import yaml

from tests.differential.oracle import Datagram, Fields, Packet
from tests.dissect.conftest import Row

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Field:
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


def fields(scope: str) -> list[Field]:
    """Return the fields of one scope of fields.yaml."""
    listed = yaml.safe_load((HERE / "fields.yaml").read_text())[scope]
    return [
        Field(
            tshark=tuple(one["tshark"]) if isinstance(one["tshark"], list) else (one["tshark"],),
            ours=one["ours"],
            form=one.get("as", "number"),
            mask=one.get("mask"),
            shift=one.get("shift", 0),
            of=frozenset(one["of"]) if "of" in one else None,
            opened=one.get("opened", False),
            known=one.get("known", False),
        )
        for one in listed
    ]


@dataclass(frozen=True)
class Difference:
    """A field in which tshark and the dissector differ."""

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

    def datagram(self, rows: list[Row], theirs: Datagram) -> None:
        """Compare a datagram: its quic_packet rows and tshark's packets."""
        number = int(theirs.fields["frame.number"][0])
        for one in self._datagram:
            self._one(number, 0, one, _of_datagram(rows[0]), theirs.fields)
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
        for one in self._tcp:
            self._one(row["frame_number"], 0, one, row, theirs)

    def _compare_packet(self, number: int, place: int, row: Row, packet: Packet) -> None:
        details = None if row["frame_details"] is None else json.loads(row["frame_details"])
        both = row["opened"] and packet.opened
        for one in self._packet:
            if one.opened and not both:
                continue
            has = one.of is None or row["type"] in one.of
            if not has and any(
                other.name == one.name and row["type"] in (other.of or ()) for other in self._packet
            ):
                continue
            if one.known and not packet.fields.get(one.name):
                continue
            self._one(number, place, one, row if has else {}, packet.fields)
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
            for one in self._frame:
                if one.of is None or kind in one.of:
                    names[one.name] = True
                    self._one(number, place, one, frame, theirs)
            # A frame has the fields of its type and no other listed one.
            for one in self._frame:
                if one.name not in names:
                    self._one(number, place, one, {}, theirs)

    def _one(self, number: int, place: int, one: Field, row: Row, theirs: Fields) -> None:
        found = [value for name in one.tshark for value in theirs.get(name, [])]
        ours, other = list(_ours(one, row.get(one.ours))), [_theirs(one.form, value) for value in found]
        if one.form in ("bytes", "text", "size"):
            # An empty byte string has no field in tshark.
            ours = [value for value in ours if value not in ("", 0)]
            other = [value for value in other if value not in ("", 0)]
        if one.form == "has":
            # Some marks occur twice in tshark's tree.
            other = other[:1]
        if ours == other:
            self.compared[one.name] += len(ours)
        else:
            self.differences.append(Difference(self.capture, number, place, one.name, ours, other))


def _of_datagram(row: Row) -> Row:
    """The fields that the rows of a datagram share."""
    shared = {name: row[name] for name in ("src_ip", "src_port", "dst_ip", "dst_port")}
    return shared | {
        "frame_number": row["frame_number"],
        "time_ns": row["time_ns"],
        "udp_length": row["datagram_size"] + 8,
    }


def _ours(one: Field, value: object) -> Iterator[object]:
    if value is None:
        return
    if one.ours == "version_list":
        yield from (int(version, 0) for version in str(value).split(","))
    elif isinstance(value, list):
        yield from value
    elif one.form == "count":
        yield len(str(value)) // 2
    elif one.form == "length":
        yield len(str(value).encode())
    elif one.form in ("bytes", "text"):
        yield str(value)
    else:
        number = int(value, 0) if isinstance(value, str) else int(value)  # type: ignore[call-overload]
        yield number if one.mask is None else (number & one.mask) >> one.shift


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
    return int(value, 0)
