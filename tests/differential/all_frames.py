"""A capture with every frame type, encrypted by aioquic. No stack sends all types by itself."""

from __future__ import annotations

from pathlib import Path

from aioquic.buffer import encode_uint_var

from tests.dissect import build as b
from tests.dissect.build import MS, CaptureBuilder


def _frame(kind: bytes, *fields: int | bytes) -> bytes:
    return kind + b"".join(field if isinstance(field, bytes) else encode_uint_var(field) for field in fields)


FRAMES = [
    _frame(b"\x01"),
    b.ack(5, first_range=1),
    _frame(b"\x02", 9, 7, 2, 1, 2, 1, 0, 0),
    _frame(b"\x03", 9, 7, 1, 1, 2, 3, 11, 12, 13),
    _frame(b"\x04", 4, 0x10C, 99),
    _frame(b"\x05", 4, 77),
    b.crypto(b"\x0bxxxx", 7000),
    _frame(b"\x07", 5, b"token"),
    _frame(b"\x0f", 3, 70_000, 2, b"ab"),
    _frame(b"\x0a", 3, 2, b"ab"),
    _frame(b"\x10", 1 << 40),
    _frame(b"\x11", 8, 1 << 33),
    _frame(b"\x12", 5),
    _frame(b"\x13", 6),
    _frame(b"\x14", 7),
    _frame(b"\x15", 8, 9),
    _frame(b"\x16", 10),
    _frame(b"\x17", 11),
    _frame(b"\x18", 3, 1, b"\x08", b"abcdefgh", bytes(range(16))),
    _frame(b"\x19", 2),
    _frame(b"\x1a", b"pathpath"),
    _frame(b"\x1b", b"htaphtap"),
    _frame(b"\x1c", 0x12F, 6, 3, b"bad"),
    _frame(b"\x1d", 0x100, 4, b"done"),
    _frame(b"\x1e"),
    _frame(b"\x40\xaf", 1, 2, 25_000, 3),
    _frame(b"\x40\xac"),
    _frame(b"\x1c", 0x128, 6, 9, b"no shared"),
    _frame(b"\x31", 3, b"dgm"),
]
# These frames extend to the end of the packet, so no frame can follow them.
LAST = [
    _frame(b"\x08", 4, b"to the end"),
    _frame(b"\x0d", 4, 300, b"and the fin"),
    _frame(b"\x30", b"dgm to the end"),
]


def make_all_frames(path: Path) -> Path:
    """Write one packet per frame type, followed by some padding, and then a packet with all types."""
    capture = CaptureBuilder().sent(0, b.hello_datagram())
    payloads = (
        [frame + bytes(3) for frame in FRAMES] + [bytes(3) + frame for frame in LAST] + [b"".join(FRAMES)]
    )
    for number, payload in enumerate(payloads):
        capture.came((10 + number) * MS, b.initial(payload, number))
    return capture.write(path)
