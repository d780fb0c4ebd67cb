"""Whole packets are readable in a capture from a killed writer, with any block size."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from firstflight import capture_files
from firstflight.capture_files import MAX_SNAPLEN, keep_whole_packets

HEADER = bytes(24)


def packet(length: int, size: int | None = None) -> bytes:
    """Return a packet of `size` bytes with `length` in its header."""
    return struct.pack("=IIII", 1, 2, length, length) + bytes(length if size is None else size)


SIZES = [0, 1, 15, 16, 17, 64, 1500, 3000]
WHOLE = HEADER + b"".join(map(packet, SIZES))
LARGE = HEADER + packet(MAX_SNAPLEN) * 9  # more than two blocks


@pytest.mark.parametrize("block", [16, 17, 33, 64, 4096, None])
@pytest.mark.parametrize(
    ("content", "packets", "kept"),
    [
        (b"", 0, 0),
        (HEADER[:-1], 0, 23),  # tcpdump had not written the header
        (HEADER, 0, 24),
        (WHOLE, len(SIZES), len(WHOLE)),
        (WHOLE + packet(7)[:15], len(SIZES), len(WHOLE)),  # a part of a header
        (WHOLE + packet(7)[:16], len(SIZES), len(WHOLE)),
        (WHOLE + packet(7)[:-1], len(SIZES), len(WHOLE)),
        (WHOLE + packet(MAX_SNAPLEN), len(SIZES) + 1, len(WHOLE) + 16 + MAX_SNAPLEN),
        (WHOLE + packet(MAX_SNAPLEN + 1), len(SIZES), len(WHOLE)),
        (WHOLE + packet(MAX_SNAPLEN + 1, 0) + packet(1), len(SIZES), len(WHOLE)),
        (LARGE, 9, len(LARGE)),
        (LARGE[:-1], 8, len(LARGE) - 16 - MAX_SNAPLEN),
    ],
)
def test_complete_packets(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    content: bytes,
    packets: int,
    kept: int,
    block: int | None,
) -> None:
    if block is not None:
        monkeypatch.setattr(capture_files, "_BLOCK_BYTES", block)
    path = tmp_path / "probe.pcap"
    path.write_bytes(content)
    assert keep_whole_packets(path) == packets
    assert path.read_bytes() == content[:kept]
