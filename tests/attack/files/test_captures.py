"""Captures that are cheap to make and expensive to read: zeros after a capture; a disk that is too small."""

from __future__ import annotations

import gzip
import os
import shlex
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from firstflight.system import binaries

FIXTURES = Path(__file__).parents[2] / "fixtures" / "quic"
CAPTURE = FIXTURES / "quicgo_at_server.pcap"
FILE_HEADER, FRAME_HEADER = 24, 16
ZEROS = 1_000_000_000
MOST = 1024  # dissector/native/src/input/empty.rs


@dataclass(frozen=True)
class ProgramResult:
    """A program's exit status, output, and CPU seconds."""

    status: int
    out: bytes
    complaints: list[str]
    cpu_s: float


def run(folder: Path, *argv: str | Path) -> ProgramResult:
    out, err = folder / "stdout", folder / "stderr"
    with out.open("wb") as output, err.open("wb") as errors:
        process = subprocess.Popen([str(word) for word in argv], stdout=output, stderr=errors)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    lines = err.read_text().splitlines()
    return ProgramResult(process.returncode, out.read_bytes(), lines, used.ru_utime + used.ru_stime)


def dissect(folder: Path, *arguments: str | Path) -> ProgramResult:
    return run(folder, binaries.find("firstflight-dissect"), *arguments)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The records of the unchanged capture."""
    done = dissect(tmp_path_factory.mktemp("whole"), CAPTURE)
    assert done.status == 0 and done.out
    return done.out


def named(done: ProgramResult) -> bytes:
    """Return the records without the capture's name."""
    rows = [line.partition(b'"source_file"')[2].partition(b",")[2] for line in done.out.split(b"\n")]
    return b"\n".join(rows)


def records(whole: bytes) -> bytes:
    return named(ProgramResult(0, whole, [], 0))


def test_gigabytes_of_zeros_cost_less_than_reading_them(tmp_path: Path, whole: bytes) -> None:
    """Records before the zeros are kept, one message reports the zeros, and reading stops in time."""
    path = tmp_path / "x.pcap"
    path.write_bytes(CAPTURE.read_bytes())
    end = path.stat().st_size
    os.truncate(path, end + ZEROS)
    done = dissect(tmp_path, path, "--keys", CAPTURE.with_suffix(".keys"))
    assert done.status == 3 and records(whole) == named(done)
    assert len(done.complaints) == 1 and f"{path}: at byte {end}: " in done.complaints[0]
    peer = run(tmp_path, "sh", "-c", 'cat "$0" >/dev/null', path)
    assert done.cpu_s < peer.cpu_s, (done.cpu_s, peer.cpu_s)


def test_zeros_that_are_compressed_are_not_unpacked_to_their_end(tmp_path: Path, whole: bytes) -> None:
    path = tmp_path / "x.pcap.gz"
    path.write_bytes(gzip.compress(CAPTURE.read_bytes() + bytes(100_000_000), 1))
    done = dissect(tmp_path, path, "--keys", CAPTURE.with_suffix(".keys"))
    assert done.status == 3 and records(whole) == named(done) and len(done.complaints) == 1
    peer = run(tmp_path, "sh", "-c", 'gzip -dc "$0" >/dev/null', path)
    assert done.cpu_s < peer.cpu_s / 2, (done.cpu_s, peer.cpu_s)


@pytest.mark.parametrize("count", [1, 16, 17, MOST, MOST + 32, 10 * MOST])
def test_empty_frames_are_passed_over_up_to_a_bound(tmp_path: Path, whole: bytes, count: int) -> None:
    """This holds even with a time and a length on the wire. Frames after a few empty frames are read."""
    content = CAPTURE.read_bytes()
    order = "<" if content[:1] in b"\xd4\x4d" else ">"
    first = struct.unpack_from(f"{order}I", content, FILE_HEADER + 8)[0]
    cut = FILE_HEADER + FRAME_HEADER + first
    second = struct.unpack_from(f"{order}II", content, cut)
    empty = struct.pack(f"{order}IIII", *second, 0, 60)
    path = tmp_path / "x.pcap"
    path.write_bytes(content[:cut] + empty * count + content[cut:])
    done = dissect(tmp_path, path, "--keys", CAPTURE.with_suffix(".keys"))
    if count <= MOST:
        assert done.status == 0 and len(done.out.splitlines()) == len(whole.splitlines())
    else:
        assert done.status == 3 and len(done.complaints) == 1 and f"at byte {cut}: " in done.complaints[0]


def test_empty_frames_of_pcapng_are_bounded_too(tmp_path: Path) -> None:
    section = struct.pack("<IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28)
    interface = struct.pack("<IIHHII", 1, 20, 1, 0, 0, 20)
    empty = struct.pack("<IIIIIIII", 6, 32, 0, 0, 0, 0, 0, 32)
    path = tmp_path / "x.pcapng"
    path.write_bytes(section + interface + empty * MOST)
    assert dissect(tmp_path, path).status == 0
    path.write_bytes(section + interface + empty * 100_000)
    done = dissect(tmp_path, path)
    assert (done.status, len(done.complaints)) == (3, 1) and "at byte 48: " in done.complaints[0]


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_a_full_disk_keeps_no_part(tmp_path: Path, form: str) -> None:
    """In a mount namespace with a disk of 64 kB: one error message, and no file remains."""
    captures = [str(path) for path in sorted(FIXTURES.glob("*.pcap"))] * 8
    argv = [str(binaries.find("firstflight-dissect")), *captures, "--kind", "quic_packet,quic_connection"]
    script = f"""
    mount -t tmpfs -o size=64k none {tmp_path}
    {shlex.join(argv)} --format {form} --out {tmp_path}/out
    echo $? >&1; ls -A {tmp_path}/out
    """
    mounting = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "--map-root-user"]
    done = subprocess.run([*mounting, "sh", "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout == "3\n", (done.stdout, done.stderr)
    assert "cannot be written: No space left on device" in done.stderr


def test_a_second_kind_that_cannot_be_opened_leaves_no_part_of_the_first(tmp_path: Path) -> None:
    (tmp_path / "out" / "tcp_flow.jsonl.part").mkdir(parents=True)
    done = dissect(tmp_path, CAPTURE, "--out", tmp_path / "out")
    assert done.status == 2 and "cannot be written: Is a directory" in done.complaints[0]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["tcp_flow.jsonl.part"]
