"""Compare the dissector with tshark on the same captures, and measure its memory on long ones:
`python -m bench dissector`

The captures hold real handshakes that the bench records itself (handshakes.py). bench/captures copies
each of them thousands of times and encrypts it again, with different addresses, connection IDs, client random
and secrets. Both programs decrypt every copy separately, and both write text files. CPU time is user + system
time of the whole command, as the kernel counts it for the finished process.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from bench import results
from bench.dissecting import tshark
from bench.process import load, run
from firstflight.system import binaries

RESULT = "dissector"
HANDSHAKES = 200_000
# Handshakes in each capture of a call that reads several captures.
OF_SEVERAL = 50_000
RATE = 1000
LEAST_WITH_KEYS, LEAST_WITHOUT = 20.0, 60.0
# Name of a call -> (kind, with keys, format, goal: how many times less CPU time than tshark).
CALLS = {
    "quic_connection with keys": ("quic_connection", True, "jsonl", LEAST_WITH_KEYS),
    "quic_connection without keys": ("quic_connection", False, "jsonl", LEAST_WITHOUT),
    "quic_packet with keys": ("quic_packet", True, "jsonl", LEAST_WITH_KEYS),
    "quic_packet with keys, as Parquet": ("quic_packet", True, "parquet", LEAST_WITH_KEYS),
}
MOST_MB = 100.0
LONG_BYTES = 2_000_000_000


def lines(path: Path) -> int:
    """Count the lines of a file piece by piece: child processes are charged this process's memory."""
    with path.open("rb") as file:
        return sum(piece.count(b"\n") for piece in iter(lambda: file.read(1 << 20), b""))


def make(recordings: Sequence[Path], folder: Path, number: int, first: int, count: int) -> tuple[Path, Path]:
    """Make capture `number`, of `count` handshakes from `first` on, and its key log.

    The key log is in another folder: by default, the dissector uses a key log in the folder of the capture.
    """
    capture, keys = folder / f"{number}.pcap", folder / "keys" / f"{number}.keys"
    keys.parent.mkdir(exist_ok=True)
    counts = ["--handshakes", str(count), "--first", str(first), "--rate", str(RATE)]
    run([binaries.find("firstflight-captures"), *recordings, *counts, "--keys", keys, "--out", capture])
    return capture, keys


def describe(rows: Path, content: collections.Counter[str]) -> int:
    """Count ciphers and certificate chains of rows made with keys; return the number of whole handshakes."""
    whole = 0
    with rows.open() as file:
        for line in file:
            row = json.loads(line)
            whole += row["handshake_done_us"] is not None
            content[f"{row['cipher_suite']}, chain of {row['certificate_bytes']} bytes"] += 1
    return whole


def beside_tshark(
    recordings: Sequence[Path], folder: Path, handshakes: int, per_capture: int, values: results.Values
) -> int:
    """Measure the CPU time of both programs on each capture in turn; return the number of missed goals."""
    tshark.check_memory(per_capture)
    dissect = binaries.find("firstflight-dissect")
    totals = dict.fromkeys(["tshark", *CALLS], 0.0)
    peaks = dict.fromkeys(totals, 0.0)
    packets = size = whole = 0
    content: collections.Counter[str] = collections.Counter()
    for number, first in enumerate(range(0, handshakes, per_capture)):
        in_capture = min(per_capture, handshakes - first)
        capture, keys = make(recordings, folder, number, first, in_capture)
        size += capture.stat().st_size
        text = folder / "fields.txt"
        used = {"tshark": run(tshark.command(capture, keys), out=text)}
        frames = tshark.check(text, in_capture)
        for name, (kind, with_keys, form, _) in CALLS.items():
            given: list[str | Path] = ["--keys", keys] if with_keys else []
            argv = [dissect, capture, *given, "--kind", kind, "--format", form, "--out", folder]
            used[name] = run(argv)
            rows = folder / f"{kind}.{form}"
            if form == "jsonl":
                # A frame of the capture holds at least one packet.
                wrong = lines(rows) != in_capture if kind == "quic_connection" else lines(rows) < frames
                if wrong:
                    raise SystemExit(f"bench: the dissector did not find every row of {kind}")
            if (kind, with_keys) == ("quic_connection", True):
                whole += describe(rows, content)
            # Each program writes a new file: replacing a file would wait for the disk.
            rows.unlink()
        packets += frames
        for name, usage in used.items():
            totals[name] += usage.cpu_s
            peaks[name] = max(peaks[name], usage.peak_mb)
        for path in (capture, keys, text):
            path.unlink()
    print(f"{handshakes} handshakes, {packets} packets, {size / 1e6:.0f} MB in captures of {per_capture},")
    print(f"  {RATE} started per second; {whole} of them read up to HANDSHAKE_DONE with keys:")
    for description, times in content.most_common():
        print(f"    {times} {description}")
    print(f"CPU seconds, user + system, of whole commands on the same captures in turn, {load()}:")
    peer = f"tshark -2, key log, {len(tshark.FIELDS)} fields"
    print(f"  {peer}: {totals['tshark']:.2f} (peak {peaks['tshark']:.0f} MB)")
    values.add(f"tshark, {handshakes:,} handshakes in {packets:,} packets", totals["tshark"], "CPU s")
    values.add("tshark: resident memory", peaks["tshark"], "MB")
    missed = 0
    for name, (*_, goal) in CALLS.items():
        ratio = totals["tshark"] / totals[name]
        call = f"`{name.partition(' ')[0]}` {name.partition(' ')[2]}"
        values.add(call, totals[name], "CPU s")
        missed += not values.add(f"{call}: tshark's time divided by this time", ratio, least=goal)
        print(f"  dissect, {name}: {totals[name]:.2f} (peak {peaks[name]:.0f} MB):")
        print(f"    {ratio:.1f} times less (goal {goal:.0f})")
    return missed


def memory(recordings: Sequence[Path], folder: Path, length: int, values: results.Values) -> int:
    """Measure peak memory on captures of `length` bytes, made while read; return the missed goals."""
    dissect, captures = binaries.find("firstflight-dissect"), binaries.find("firstflight-captures")
    # Approximate length of a copy.
    average = sum(path.stat().st_size for path in recordings) / len(recordings)
    handshakes = int(length / average)
    maker: list[str | Path] = [captures, *recordings, "--handshakes", str(handshakes), "--rate", str(RATE)]
    keys = folder / "long.keys"
    run([*maker, "--keys", keys])
    quic: list[str | Path] = [dissect, "-", "--kind", "quic_connection"]
    tcp: list[str | Path] = [dissect, "-", "--kind", "tcp_flow"]
    missed = 0
    for label, argv, source in (
        (f"{handshakes} handshakes without keys", quic, made_by(maker)),
        (f"{handshakes} handshakes with keys", [*quic, "--keys", keys], made_by(maker)),
        (
            f"{handshakes} handshakes with keys, as Parquet",
            [*quic, "--keys", keys, "--format", "parquet", "--out", folder],
            made_by(maker),
        ),
        ("TCP flows", tcp, repeated(folder / "tcp.pcap", length)),
    ):
        with source as stream:
            used = run(argv, source=stream.fileno())
        text = f"a stream of {length / 1e9:g} GB, {label}"
        values.add(text, used.cpu_s, "CPU s")
        missed += not values.add(f"{text}: resident memory", used.peak_mb, "MB", most=MOST_MB)
        print(f"{length / 1e9:.1f} GB, {label}: peak {used.peak_mb:.0f} MB resident (limit {MOST_MB:.0f}),")
        print(f"  {used.cpu_s:.2f} CPU seconds")
    return missed


@contextmanager
def made_by(argv: Sequence[str | Path]) -> Iterator[BinaryIO]:
    """Run a command and yield its standard output."""
    with subprocess.Popen([str(part) for part in argv], stdout=subprocess.PIPE) as maker:
        assert maker.stdout is not None
        yield maker.stdout  # type: ignore[misc]


@contextmanager
def repeated(capture: Path, length: int) -> Iterator[BinaryIO]:
    """Repeat a TCP connection (pcap, IPv4 on Ethernet) with different client ports and later times."""
    content = capture.read_bytes()
    header, at, frames = content[:24], 24, []
    while at < len(content):
        seconds, micros, kept, _ = struct.unpack_from("<4I", content, at)
        frames.append((seconds * 1_000_000 + micros, bytearray(content[at : at + 16 + kept])))
        at += 16 + kept
    client = bytes(frames[0][1][50:52])

    def write(into: BinaryIO) -> None:
        with into:
            into.write(header)
            written, copy = 0, 0
            while written < length:
                # 60,000 ports of each of many addresses; 1000 connections start per second.
                port = struct.pack(">H", 1024 + copy % 60_000)
                address = struct.pack(">I", (10 << 24) + copy // 60_000)
                piece = bytearray()
                for at_us, frame in frames:
                    time_us = at_us + copy * 1000
                    struct.pack_into("<2I", frame, 0, time_us // 1_000_000, time_us % 1_000_000)
                    from_client = frame[50:52] == client
                    place, from_address = (50, 42) if from_client else (52, 46)
                    fresh = bytearray(frame)
                    fresh[place : place + 2] = port
                    fresh[from_address : from_address + 4] = address
                    piece += fresh
                into.write(piece)
                written += len(piece)
                copy += 1

    reading, writing = os.pipe()
    writer = threading.Thread(target=write, args=(os.fdopen(writing, "wb", 1 << 20),))
    writer.start()
    with os.fdopen(reading, "rb") as stream:
        yield stream
        writer.join()


def cores(recordings: Sequence[Path], folder: Path, values: results.Values) -> None:
    """Measure how many cores a call with several captures uses."""
    captures = [make(recordings, folder, number, number * OF_SEVERAL, OF_SEVERAL) for number in range(4)]
    argv = [binaries.find("firstflight-dissect"), *(capture for capture, _ in captures)]
    used = run([*argv, "--kind", "quic_connection", "--out", folder], quiet=True)
    busy = used.cpu_s / used.wall_s
    values.add(f"four captures of {OF_SEVERAL:,} handshakes in one call", used.cpu_s, "CPU s")
    values.add("four captures in one call: busy cores", busy)
    print(f"4 captures in one call: {used.cpu_s:.2f} CPU seconds in {used.wall_s:.2f} s: {busy:.1f}")
    print(f"  of {os.cpu_count()} cores (less if others use them), peak {used.peak_mb:.0f} MB")
    for paths in captures:
        for path in paths:
            path.unlink()


def main() -> int:
    """Measure and print; return the number of missed goals."""
    parser = argparse.ArgumentParser(prog="bench dissector")
    parser.add_argument("--handshakes", type=int, default=HANDSHAKES)
    parser.add_argument("--per-capture", type=int, default=HANDSHAKES, help="less where memory is short")
    parser.add_argument("--long-bytes", type=int, default=LONG_BYTES)
    results.add_option(parser)
    options = parser.parse_args()
    file = results.begin(parser, options.result, RESULT)
    values = results.Values()
    with tempfile.TemporaryDirectory(prefix="firstflight-bench-") as name:
        folder = Path(name)
        # In a separate process: the kernel also charges a program the memory of the process that starts it.
        run([sys.executable, "-m", "bench.dissecting.handshakes", folder])
        recordings = [folder / f"{stack}.pcap" for stack in ("quiche", "quic-go", "aioquic")]
        missed = beside_tshark(recordings, folder, options.handshakes, options.per_capture, values)
        cores(recordings, folder, values)
        missed += memory(recordings, folder, options.long_bytes, values)
    file.write(values.lines, {"software": {"tshark": [tshark.version()]}})
    return missed


if __name__ == "__main__":
    sys.exit(main())
