"""Captures that are compressed, and frames without a time."""

from __future__ import annotations

import bz2
import gzip
import json
import struct
import subprocess
from pathlib import Path

import pytest

from tests.dissect.conftest import FIXTURES, dissect, rows

QUICHE = FIXTURES / "quiche.pcap"


def compressed(kind: str, data: bytes) -> bytes:
    """Return `data` compressed by the zstd program or by gzip, in two frames or members."""
    half = len(data) // 2
    if kind == "gzip":
        return gzip.compress(data[:half]) + gzip.compress(data[half:])
    parts = [data[:half], data[half:]]
    return b"".join(
        subprocess.run(["zstd", "-q", "-c"], input=part, capture_output=True, check=True).stdout
        for part in parts
    )


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
@pytest.mark.parametrize("way", ["file", "stdin"])
def test_compressed_captures_give_the_same_rows(kind: str, way: str, tmp_path: Path) -> None:
    (original,) = rows(QUICHE, "--kind", "quic_connection")
    data = compressed(kind, QUICHE.read_bytes())
    # The first bytes identify the compression; the name is ignored.
    path = tmp_path / "capture.pcap"
    path.write_bytes(data)
    options = ["--kind", "quic_connection", "--keys", str(QUICHE.with_suffix(".keys"))]
    if way == "file":
        (found,) = rows(path, *options)
    else:
        (found,) = rows("-", *options, stdin=data)
    assert found | {"source_file": ""} == original | {"source_file": ""}


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_packets_before_a_cut_are_kept(kind: str, tmp_path: Path) -> None:
    data = QUICHE.read_bytes()
    path = tmp_path / "cut"
    # The first half is a separate frame, so it can be read completely.
    path.write_bytes(compressed(kind, data)[:-40])
    done = dissect(path, QUICHE, "--kind", "quic_connection")
    assert done.returncode == 3
    assert f"{path}: at byte " in done.stderr.decode()
    assert [json.loads(line)["source_file"] for line in done.stdout.splitlines()] == [str(path), str(QUICHE)]


def test_other_compressors_are_named(tmp_path: Path) -> None:
    path = tmp_path / "capture.bz2"
    path.write_bytes(bz2.compress(QUICHE.read_bytes()))
    done = dissect(path)
    assert (done.returncode, done.stdout) == (3, b"")
    assert b"bzip2" in done.stderr


def test_a_window_beyond_the_memory_is_reported(tmp_path: Path) -> None:
    """Zstandard's long windows must be kept in memory: they are refused with advice."""
    path = tmp_path / "long.zst"
    # The size is not known in advance, so the window is as large as requested.
    with path.open("wb") as out:
        argv = ["zstd", "-q", "-c", "--long=27"]
        subprocess.run(argv, input=QUICHE.read_bytes(), stdout=out, check=True)
    done = dissect(path)
    assert (done.returncode, done.stdout) == (3, b"")
    assert b"its Zstandard window is larger than 64 MiB: decompress it first" in done.stderr


def block(kind: int, body: bytes) -> bytes:
    """Return a block of pcapng."""
    body += bytes(-len(body) % 4)
    length = struct.pack("<I", len(body) + 12)
    return struct.pack("<I", kind) + length + body + length


def test_frames_without_a_time_are_counted_and_left_out(tmp_path: Path) -> None:
    path = tmp_path / "simple.pcapng"
    header = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    interface = block(1, struct.pack("<HHI", 101, 0, 0))
    path.write_bytes(header + interface + block(3, struct.pack("<I", 4) + b"\x45\0\0\0"))
    done = dissect(path)
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"of 1 frames, 1 frames without a time (Simple Packet Blocks)" in done.stderr
