"""Damaged samples of every kind: an orderly end, with complete lines, in little memory."""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from firstflight.system import binaries
from tests.dissect.conftest import FIXTURES
from tests.waiting import PATIENCE_S

KINDS = "quic_connection,quic_packet,quic_ack,tcp_flow,tcp_packet,pacing"
MOST_KB = 100_000
ROUNDS = 40
# Runs its arguments from a small process, because a child is charged its parent's memory.
MEASURED = """
import os, sys
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, state, usage = os.wait4(pid, 0)
print(usage.ru_maxrss, file=sys.stderr)
sys.exit(os.waitstatus_to_exitcode(state))
"""
EDGES = (b"\xff\xff\xff\xff", b"\0\0\0\0", b"\xff\xff\xff\x7f", b"\0\0\0\x80")


def damaged(data: bytearray, rng: random.Random) -> bytes:
    """Return the bytes cut off, with flipped bits, absurd lengths, missing parts, or repeated parts."""
    at = rng.randrange(len(data))
    size = rng.randrange(1, 3000)
    match rng.randrange(5):
        case 0:
            del data[at:]
        case 1:
            for _ in range(rng.randrange(1, 20)):
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        case 2:
            data[at : at + 4] = rng.choice(EDGES)
        case 3:
            del data[at : at + size]
        case _:
            data[at:at] = data[at : at + size]
    return bytes(data)


def samples(folder: str, scratch: Path) -> Iterator[tuple[Path, bytes]]:
    """Captures as they are, as pcapng, and compressed."""
    for path in sorted((FIXTURES.parent / folder).glob("*.pcap")):
        yield path, path.read_bytes()
        other = scratch / "other.pcapng"
        subprocess.run(["editcap", "-F", "pcapng", str(path), str(other)], check=True)
        yield path, other.read_bytes()
        yield path, gzip.compress(path.read_bytes())


def run(argv: list[str], folder: Path) -> tuple[int, list[str], int]:
    """Run a program, output to FOLDER/out; return status, lines of standard error, peak memory in kB."""
    with (folder / "out").open("wb") as out:
        measured_argv = [sys.executable, "-S", "-E", "-c", MEASURED, *argv]
        done = subprocess.run(
            measured_argv, stdout=out, stderr=subprocess.PIPE, check=False, timeout=PATIENCE_S
        )
    *messages, memory_kb = done.stderr.decode().splitlines()
    return done.returncode, messages, int(memory_kb)


@pytest.mark.parametrize("folder", ["interop", "quic", "tcp"])
def test_any_damage_ends_in_order(folder: str, tmp_path: Path) -> None:
    rng = random.Random(folder)
    originals = list(samples(folder, tmp_path))
    statuses = set()
    for _ in range(ROUNDS):
        original, content = rng.choice(originals)
        path = tmp_path / "damaged.pcap"
        path.write_bytes(damaged(bytearray(content), rng))
        argv = [str(binaries.find("firstflight-dissect")), str(path), "--kind", KINDS]
        keys = original.with_suffix(".keys")
        status, messages, memory_kb = run(
            [*argv, *(["--keys", str(keys)] if keys.exists() else [])], tmp_path
        )
        statuses.add(status)
        assert status in (0, 3), (original, messages)
        assert not any("panicked" in line for line in messages)
        assert any(f"{path}: at byte " in line for line in messages) == (status == 3), messages
        assert memory_kb < MOST_KB
        for line in (tmp_path / "out").read_bytes().splitlines():
            json.loads(line)
    assert statuses == {0, 3}
