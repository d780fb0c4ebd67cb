"""Clocks of pcapng: either byte order, resolutions of tens and twos, offsets, sections and interfaces."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.dissect.captures.test_input import answered, frames_of
from tests.dissect.conftest import Row, dissect, rows

SECTION, INTERFACE, OLD_PACKET, PACKET = 0x0A0D0D0A, 1, 2, 6
TSRESOL, TSOFFSET = 9, 14


@dataclass
class InterfaceClock:
    """if_tsresol, the conversion of nanoseconds to its unit, and if_tsoffset in seconds."""

    resolution: int
    ticks: Callable[[int], int]
    offset_s: int = 0


MICRO = InterfaceClock(6, lambda ns: ns // 1000)
NANO = InterfaceClock(9, lambda ns: ns)
PICO = InterfaceClock(12, lambda ns: ns * 1000, 1_700_000_000)
TWOS = InterfaceClock(0x80 | 32, lambda ns: -(-(ns << 32) // 10**9), 1_700_000_000)
LATER = InterfaceClock(9, lambda ns: ns, 1_000_000_000)
EARLIER = InterfaceClock(6, lambda ns: ns // 1000, -5000)


def block(order: str, kind: int, body: bytes) -> bytes:
    length = struct.pack(order + "I", 12 + len(body))
    return struct.pack(order + "I", kind) + length + body + length


def section(
    order: str, link: int, clocks: list[InterfaceClock], frames: list[tuple[int, bytes]], kind: int = PACKET
) -> bytes:
    """Return a section with an interface per clock. Frames alternate between them, in blocks of `kind`."""
    out = block(order, SECTION, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1))
    for clock in clocks:
        options = struct.pack(order + "HHB3x", TSRESOL, 1, clock.resolution)
        options += struct.pack(order + "HHqHH", TSOFFSET, 8, clock.offset_s, 0, 0)
        out += block(order, INTERFACE, struct.pack(order + "HHI", link, 0, 0) + options)
    for number, (ns, data) in enumerate(frames):
        clock = clocks[number % len(clocks)]
        ticks = clock.ticks(ns - clock.offset_s * 10**9)
        interface_and_time = (number % len(clocks), ticks >> 32, ticks & 0xFFFFFFFF)
        # Old blocks count drops in the second half of the interface's number.
        first = "HxxII" if kind == OLD_PACKET else "III"
        head = struct.pack(order + first + "II", *interface_and_time, len(data), len(data))
        out += block(order, kind, head + data + bytes(-len(data) % 4))
    return out


def recorded(folder: Path) -> tuple[Row, int, list[tuple[int, bytes]]]:
    """Return the row, link type and frames (time in ns, bytes) in a capture at whole microseconds."""
    original = answered(folder / "original.pcap")
    data = bytearray(original.read_bytes())
    (link,) = struct.unpack_from("<I", data, 20)
    at, frames = 24, []
    for head, frame in frames_of(original):
        seconds, nanos, _, _ = struct.unpack("<4I", head)
        nanos -= nanos % 1000
        struct.pack_into("<I", data, at + 4, nanos)
        frames.append((seconds * 10**9 + nanos, frame))
        at += len(head) + len(frame)
    original.write_bytes(data)
    (row,) = rows(original)
    return row, link, frames


def check(path: Path, expected: Row) -> None:
    (row,) = rows(path)
    assert row | {"source_file": ""} == expected | {"source_file": ""}


def times_by_tshark(path: Path) -> list[int]:
    argv = ["tshark", "-r", str(path), "-T", "fields", "-e", "frame.time_epoch"]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    return [int(time.replace(".", "")) for time in done.stdout.split()]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("clock", [MICRO, NANO, PICO, TWOS, LATER, EARLIER])
def test_a_clock(order: str, clock: InterfaceClock, tmp_path: Path) -> None:
    expected, link, frames = recorded(tmp_path)
    path = tmp_path / "one.pcapng"
    path.write_bytes(section(order, link, [clock], frames))
    check(path, expected)
    # tshark 4.0 has no clock finer than a nanosecond.
    assert clock is PICO or times_by_tshark(path) == [ns for ns, _ in frames]


@pytest.mark.parametrize("order", ["<", ">"])
def test_packet_blocks_of_old_writers(order: str, tmp_path: Path) -> None:
    expected, link, frames = recorded(tmp_path)
    path = tmp_path / "old.pcapng"
    path.write_bytes(section(order, link, [MICRO, LATER], frames, OLD_PACKET))
    check(path, expected)
    assert times_by_tshark(path) == [ns for ns, _ in frames]
    # Its data is shorter than its length field.
    content = path.read_bytes()
    last = len(frames[-1][1])
    at = len(content) - 4 - (last + -last % 4) - 8
    path.write_bytes(content[:at] + struct.pack(order + "I", last + 9) + content[at + 4 :])
    done = dissect(path)
    assert (done.returncode, len(done.stdout.splitlines())) == (3, 1)
    assert "expected a whole Packet Block" in done.stderr.decode()


def test_sections_and_interfaces_have_their_own(tmp_path: Path) -> None:
    expected, link, frames = recorded(tmp_path)
    path = tmp_path / "two.pcapng"
    first = section("<", link, [MICRO, LATER], frames[:2])
    path.write_bytes(first + section(">", link, [EARLIER], frames[2:]))
    check(path, expected)
    assert times_by_tshark(path) == [ns for ns, _ in frames]
