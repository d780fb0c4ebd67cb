"""Capture formats, broken captures, and the form of the records."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

import pyarrow.parquet as pq
import pytest

from firstflight.system import binaries
from schemas import records
from tests.dissect import build as b
from tests.dissect.build import MS, CaptureBuilder
from tests.dissect.conftest import FIXTURES, Row, dissect, rows
from tests.processes import pending
from tests.waiting import until

QUICHE = FIXTURES / "quiche.pcap"
GLOBAL_HEADER, FRAME_HEADER = 24, 16


def answered(path: Path) -> Path:
    """A capture with one connection: instant ACK after 10 ms, ServerHello after 13."""
    capture = CaptureBuilder().sent(0, b.hello_datagram()).came(10 * MS, b.initial(b.ack(), 0))
    return capture.came(13 * MS, b.initial(b.crypto(b.server_hello()), 1)).write(path)


def is_same(path: Path, original: Path) -> bool:
    """Return whether a capture gives the same row as the one it was made from, except for its name."""
    keys = original.with_suffix(".keys")
    options: list[str | Path] = ["--keys", keys] if keys.exists() else []
    (row,), (original_row,) = rows(path, *options), rows(original)
    return row | {"source_file": ""} == original_row | {"source_file": ""}


def frames_of(path: Path) -> list[tuple[bytes, bytes]]:
    """Yield frame header and data of each frame in a little-endian pcap."""
    data, at, found = path.read_bytes(), GLOBAL_HEADER, []
    while at < len(data):
        (length,) = struct.unpack_from("<8xI", data, at)
        found.append((data[at : at + FRAME_HEADER], data[at + FRAME_HEADER : at + FRAME_HEADER + length]))
        at += FRAME_HEADER + length
    return found


def rewritten(path: Path, original: Path, link: int, head: bytes) -> Path:
    """Return the capture with another link type and `head` in front of each IP packet."""
    out = original.read_bytes()[:20] + struct.pack("<I", link)
    for frame_header, data in frames_of(original):
        seconds, fraction, _, _ = struct.unpack("<IIII", frame_header)
        out += struct.pack("<IIII", seconds, fraction, len(head + data), len(head + data)) + head + data
    path.write_bytes(out)
    return path


@pytest.mark.parametrize("style", ["pcapng", "nsecpcap", "pcap"])
def test_formats_of_editcap(style: str, tmp_path: Path) -> None:
    """editcap, a program of tshark's package, writes the same capture in other formats."""
    other = tmp_path / f"other.{style}"
    subprocess.run(["editcap", "-F", style, str(QUICHE), str(other)], check=True)
    assert is_same(other, QUICHE)


def test_pcapng_keeps_nanoseconds(tmp_path: Path) -> None:
    original = answered(tmp_path / "nano.pcap")
    other = tmp_path / "nano.pcapng"
    subprocess.run(["editcap", "-F", "pcapng", str(original), str(other)], check=True)
    assert is_same(other, original)
    assert rows(other)[0]["start_time_ns"] == b.START_NS


@pytest.mark.parametrize(
    ("link", "head"),
    [
        (1, bytes(12) + b"\x08\x00"),
        (1, bytes(12) + b"\x81\x00\x00\x07\x08\x00"),
        # A PPPoE session.
        (1, bytes(12) + b"\x88\x64\x11\x00\x00\x01\x05\x00\x00\x21"),
        # libpcap's flags for a frame check sequence.
        (0x24000001, bytes(12) + b"\x08\x00"),
        (9, b"\xff\x03\x00\x21"),
        (0, b"\x02\0\0\0"),
        (108, b"\0\0\0\x02"),
        (113, bytes(14) + b"\x08\x00"),
        (276, b"\x08\x00" + bytes(18)),
        (228, b""),
    ],
)
def test_link_types(link: int, head: bytes, tmp_path: Path) -> None:
    original = answered(tmp_path / "raw.pcap")
    assert is_same(rewritten(tmp_path / "other.pcap", original, link, head), original)


def test_an_unknown_link_type_is_reported(tmp_path: Path) -> None:
    path = rewritten(tmp_path / "radio.pcap", answered(tmp_path / "raw.pcap"), 127, b"")
    done = dissect(path)
    assert (done.returncode, done.stdout) == (3, b"")
    assert b"expected a known link type, found 127" in done.stderr


def test_frames_of_an_unknown_link_type_are_reported_and_the_others_read(tmp_path: Path) -> None:
    """Two interfaces in one pcapng: the frames of one can be read."""
    known = answered(tmp_path / "raw.pcap")
    unknown = rewritten(tmp_path / "radio.pcap", known, 127, b"")
    both = tmp_path / "both.pcapng"
    subprocess.run(["mergecap", "-w", str(both), str(known), str(unknown)], check=True)
    done = dissect(both)
    assert done.returncode == 3
    assert f"{both}: at byte " in done.stderr.decode()
    assert b"expected a known link type, found 127" in done.stderr
    assert b"of 6 frames, 3 frames of an unknown link type" in done.stderr
    (row,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert row["first_answer"] == "iack"
    # The only interface has an unknown link type.
    alone = tmp_path / "alone.pcapng"
    subprocess.run(["editcap", "-F", "pcapng", str(unknown), str(alone)], check=True)
    done = dissect(alone, known)
    assert (done.returncode, len(done.stdout.splitlines())) == (3, 1)
    assert f"{alone}: at byte " in done.stderr.decode()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"ip,domain,port\n192.0.2.1,,\n", 'found "ip,domain,port'),
        (b"\xd4\xc3\xb2\xa1\x02\x00", "is not a capture"),
    ],
)
def test_a_file_that_is_not_a_capture_is_refused_by_name(
    content: bytes, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "no.pcap"
    path.write_bytes(content)
    done = dissect(path, QUICHE)
    assert done.returncode == 3
    assert str(path) in done.stderr.decode()
    assert message in done.stderr.decode()
    # The other capture is still read.
    assert [json.loads(line)["source_file"] for line in done.stdout.splitlines()] == [str(QUICHE)]


def test_a_missing_capture_is_refused_by_name(tmp_path: Path) -> None:
    done = dissect(tmp_path / "none.pcap")
    assert done.returncode == 3
    assert f"{tmp_path / 'none.pcap'}: at byte 0: cannot be opened" in done.stderr.decode()


def test_a_capture_cut_at_any_byte_keeps_what_was_before(tmp_path: Path) -> None:
    """The frames before the cut are used; the message names the offset of the cut frame."""
    content = answered(tmp_path / "whole.pcap").read_bytes()
    ends = [GLOBAL_HEADER]
    for header, data in frames_of(tmp_path / "whole.pcap"):
        ends.append(ends[-1] + len(header) + len(data))
    outcomes = {0: [], 1: ["timeout"], 2: ["ack_only"], 3: ["iack"]}
    path = tmp_path / "cut.pcap"
    for size in [
        *range(GLOBAL_HEADER, GLOBAL_HEADER + 20),
        *(end + d for end in ends[1:] for d in (-1, 0, 1)),
    ]:
        if size > len(content):
            continue
        path.write_bytes(content[:size])
        done = dissect(path)
        complete = max(n for n, end in enumerate(ends) if end <= size)
        found = [json.loads(line)["first_answer"] for line in done.stdout.splitlines()]
        assert found == outcomes[complete], size
        if size in ends:
            assert (done.returncode, done.stderr) == (0, b"")
        else:
            assert done.returncode == 3
            assert f"at byte {ends[complete]}: expected a whole frame" in done.stderr.decode()


def test_packets_cut_by_the_snap_length_are_counted(tmp_path: Path) -> None:
    original = answered(tmp_path / "whole.pcap")
    short = tmp_path / "short.pcap"
    subprocess.run(["editcap", "-F", "nsecpcap", "-s", "60", str(original), str(short)], check=True)
    done = dissect(short)
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"3 UDP datagrams of no known connection" in done.stderr


def test_tcp_options_cut_by_the_snap_length_are_not_known(tmp_path: Path) -> None:
    """A SYN from Linux, cut after its second option."""
    original = FIXTURES.parent / "tcp" / "tcp_loss.pcap"
    short = tmp_path / "short.pcap"
    subprocess.run(["editcap", "-s", "60", str(original), str(short)], check=True)
    (cut,), (complete,) = rows(short), rows(original)
    names = ("mss", "sack_permitted", "timestamps", "wscale", "window_shift", "highest_window")
    for side in ("client", "server"):
        assert [cut[f"{name}_{side}"] for name in names] == [1460, True, None, None, None, None]
        assert [complete[f"{name}_{side}"] for name in names[:5]] == [1460, True, True, 10, 10]
    first = rows(short, "--kind", "tcp_packet")[0]
    assert first["options"] == "mss 1460; sack_permitted; input ends too early"


def test_damaged_captures_never_crash(tmp_path: Path) -> None:
    """Any byte may be wrong: the exit status is a documented one, with rows or a message."""
    original = bytearray(answered(tmp_path / "whole.pcap").read_bytes())
    path = tmp_path / "damaged.pcap"
    for at in range(0, len(original), 37):
        damaged = original.copy()
        damaged[at] ^= 0xFF
        path.write_bytes(damaged)
        done = dissect(path)
        assert done.returncode in (0, 3), (at, done.stderr)
        assert b"panicked" not in done.stderr


def test_lines_hold_every_column_of_the_kind() -> None:
    for kind in ("quic_connection", "quic_packet"):
        described = [c for c in records.load(kind).columns if c.source == "dissector"]
        found = rows(QUICHE, "--kind", kind)
        assert found
        for row in found:
            assert list(row) == ["kind", *(column.name for column in described)]
            assert row["kind"] == kind
            check(row, described)


def check(row: Row, described: list[records.Column]) -> None:
    """Types, nulls and closed lists in a row."""
    types: dict[str, type] = {"string": str, "bool": bool, "float64": float}
    for column in described:
        value = row[column.name]
        assert value is not None or column.nullable, column.name
        if value is not None:
            assert type(value) is types.get(column.type, int), column.name
            assert not column.values or value in column.values, column.name


def test_parquet_has_the_types_of_the_kind(tmp_path: Path) -> None:
    done = dissect(
        *sorted(FIXTURES.glob("*.pcap")),
        *("--kind", "quic_connection,quic_packet", "--format", "parquet", "--out", tmp_path),
    )
    assert done.returncode == 0, done.stderr
    for kind in ("quic_connection", "quic_packet"):
        described = [c for c in records.load(kind).columns if c.source == "dissector"]
        table = pq.read_table(tmp_path / f"{kind}.parquet")
        assert [(f.name, f.type, f.nullable) for f in table.schema] == [
            (c.name, c.arrow_type(), c.nullable) for c in described
        ]
        as_lines = rows(*sorted(FIXTURES.glob("*.pcap")), "--kind", kind)
        assert table.to_pylist() == [{k: v for k, v in row.items() if k != "kind"} for row in as_lines]
    assert not list(tmp_path.glob("*.part"))


def test_wrong_use_is_refused() -> None:
    for arguments in (["--format", "parquet", str(QUICHE)], ["--kind", "nothing", str(QUICHE)], []):
        done = dissect(*arguments)
        assert (done.returncode, done.stdout) == (2, b""), arguments
        assert len(done.stderr.splitlines()) == 1, done.stderr
    assert b"--out" in dissect("--format", "parquet", QUICHE).stderr


def test_an_unwritable_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = dissect(QUICHE, "--out", tmp_path / "file" / "deeper")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"cannot be written" in done.stderr


@pytest.mark.parametrize("through", ["native", "command line"])
def test_a_closed_standard_output_is_reported(tmp_path: Path, through: str) -> None:
    """Otherwise its records would be lost silently."""
    native_program = [str(binaries.find("firstflight-dissect"))]
    command_line = [str(Path(sys.executable).with_name("firstflight")), "dissect"]
    program = native_program if through == "native" else command_line
    closed = ["sh", "-c", '"$@" >&-', "sh", *program, str(QUICHE)]
    done = subprocess.run(closed, capture_output=True, check=False, text=True)
    assert done.returncode == 2
    message = "standard output is closed: redirect it to a file, or give --out DIR"
    assert done.stderr == f"firstflight-dissect: {message}\n"
    into = subprocess.run([*closed, "--out", str(tmp_path)], capture_output=True, check=False)
    assert (into.returncode, into.stderr) == (0, b"")
    assert (tmp_path / "quic_connection.jsonl").stat().st_size > 0


def unread(pipe: IO[bytes]) -> int:
    """Return the number of unread bytes in a pipe."""
    (count,) = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))
    return int(count)


def test_interrupted_in_order(tmp_path: Path) -> None:
    """Records read before the signal are written; the file does not get its final name."""
    argv = [str(binaries.find("firstflight-dissect")), "-", "--out", str(tmp_path)]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    stdin = process.stdin
    assert stdin is not None
    content = QUICHE.read_bytes()
    # More than one read, and then nothing.
    frames = content[GLOBAL_HEADER:]
    stdin.write(content + frames * 80)
    stdin.flush()
    until(lambda: list(tmp_path.glob("*.part")) and unread(stdin) == 0, "all of it is read")
    process.send_signal(signal.SIGINT)
    until(lambda: pending(process.pid) == 0, "the signal is handled")
    stdin.write(frames)
    stdin.close()
    assert process.wait(120) == 130
    assert not (tmp_path / "quic_connection.jsonl").exists()
    lines = (tmp_path / "quic_connection.jsonl.part").read_text().splitlines()
    assert [json.loads(line)["sni"] for line in lines] == ["server4"]


def test_a_second_signal_ends_at_once_however_silent_the_input_is(tmp_path: Path) -> None:
    argv = [str(binaries.find("firstflight-dissect")), "-", "--out", str(tmp_path)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        until(lambda: list(tmp_path.glob("*.part")), "it has begun")
        process.send_signal(signal.SIGINT)
        until(lambda: pending(process.pid) == 0, "the signal is handled")
        time.sleep(0.2)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 130


def test_captures_are_not_read_further_if_the_output_is_closed(tmp_path: Path) -> None:
    """The rows of the first one cannot be written while the second one has no end."""
    fifo = tmp_path / "endless.pcap"
    os.mkfifo(fifo)
    content = CaptureBuilder().sent(0, b"x" * 100).write(tmp_path / "x.pcap").read_bytes()
    ended = threading.Event()
    # It never waits: that the dissector opens the other end, or that there is room for more.
    end = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)

    def feed() -> None:
        os.write(end, content[:GLOBAL_HEADER])
        while not ended.is_set():
            with suppress(BlockingIOError):
                os.write(end, content[GLOBAL_HEADER:] * 20)  # as a whole: less than PIPE_BUF

    feeder = threading.Thread(target=feed)
    feeder.start()
    closed_pipe, stdout = os.pipe()
    os.close(closed_pipe)
    argv = [str(binaries.find("firstflight-dissect")), str(QUICHE), str(fifo)]
    process = subprocess.Popen(argv, stdout=stdout)
    try:
        # As if all had been taken: `| head` is no error.
        assert process.wait(120) == 0
    finally:
        process.kill()
        ended.set()
        feeder.join()
        os.close(end)
        os.close(stdout)


def test_several_captures_give_rows_in_their_order(tmp_path: Path) -> None:
    """Captures are read in parallel; the rows are the same as in sequence, with broken ones between."""
    broken = tmp_path / "broken.pcap"
    broken.write_bytes(QUICHE.read_bytes()[:-5])
    captures = [*sorted(FIXTURES.glob("*.pcap")), broken, *sorted(FIXTURES.glob("*.pcap"), reverse=True)]
    kinds = ("--kind", "quic_connection,quic_packet")
    done = dissect(*captures, *kinds)
    assert done.returncode == 3
    assert f"{broken}: at byte" in done.stderr.decode()
    assert done.stdout == b"".join(dissect(capture, *kinds).stdout for capture in captures)
