"""The dissector beside tshark on the same captures, and its memory on a long one: `python -m bench dissector`

The captures hold real handshakes of 16 server stacks (tests/fixtures/interop), each copied thousands of
times by bench/captures with addresses, connection IDs, client randoms and secrets of its own, sealed anew;
both programs open every copy by itself. CPU time is user + system of the whole command, as the kernel counts
it for the ended process.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.process import run
from firstflight import native

RECORDINGS = sorted((native.repository() / "tests" / "fixtures" / "interop").glob("*.pcap"))
PER_CAPTURE = 20_000
RATE = 1000
LEAST_WITH_KEYS, LEAST_WITHOUT = 20.0, 60.0
MOST_MB = 100.0
LONG_BYTES = 2_000_000_000

# What a pipeline that turns captures into text columns takes from each packet.
FIELDS = [
    "frame.number",
    "frame.time_epoch",
    "ip.src",
    "ip.dst",
    "udp.srcport",
    "udp.dstport",
    "udp.length",
    "quic.header_form",
    "quic.long.packet_type",
    "quic.version",
    "quic.dcid",
    "quic.scid",
    "quic.packet_number",
    "quic.frame_type",
    "quic.ack.ack_delay",
    "quic.ack.largest_acknowledged",
    "quic.crypto.offset",
    "tls.handshake.type",
    "tls.handshake.extensions_server_name",
]


def count(path: Path, text: str) -> int:
    """Lines with `text`. One by one: the memory of this process would count for the programs it starts."""
    with path.open() as lines:
        return sum(text in line for line in lines)


def make(folder: Path, number: int) -> tuple[Path, Path]:
    """Capture `number` and, in another folder, its key log: one beside the capture would be taken unasked."""
    capture, keys = folder / f"{number}.pcap", folder / "keys" / f"{number}.keys"
    keys.parent.mkdir(exist_ok=True)
    counts = ["--handshakes", str(PER_CAPTURE), "--first", str(number * PER_CAPTURE), "--rate", str(RATE)]
    run([native.find("firstflight-captures"), *RECORDINGS, *counts, "--keys", keys, "--out", capture])
    return capture, keys


def beside_tshark(folder: Path, handshakes: int) -> int:
    """CPU time of both on each capture; the number of goals missed."""
    dissect = native.find("firstflight-dissect")
    rows = folder / "quic_connection.jsonl"
    totals = {"tshark": 0.0, "keys": 0.0, "without": 0.0}
    peaks = dict.fromkeys(totals, 0.0)
    packets = size = opened = 0
    captures = -(-handshakes // PER_CAPTURE)
    for number in range(captures):
        capture, keys = make(folder, number)
        size += capture.stat().st_size
        text = folder / "fields.txt"
        two_passes: list[str | Path] = ["tshark", "-2", "-r", capture, "-T", "fields"]
        two_passes += ["-o", f"tls.keylog_file:{keys}"]
        used = {
            "tshark": run([*two_passes, *(part for name in FIELDS for part in ("-e", name))], out=text),
            "keys": run([dissect, capture, "--keys", keys, "--kind", "quic_connection", "--out", folder]),
        }
        opened += count(rows, '"handshake_done_us":') - count(rows, '"handshake_done_us":null')
        used["without"] = run([dissect, capture, "--kind", "quic_connection", "--out", folder])
        if count(rows, "\n") != PER_CAPTURE:
            raise SystemExit("bench: the dissector did not find every handshake")
        packets += count(text, "\n")
        for name, one in used.items():
            totals[name] += one.cpu_s
            peaks[name] = max(peaks[name], one.peak_mb)
        for path in (capture, keys, text):
            path.unlink()
    made = f"{captures * PER_CAPTURE} handshakes, {packets} packets, {size / 1e6:.0f} MB"
    print(f"{made} in captures of {PER_CAPTURE},")
    print(f"  {RATE} begun in a second; HANDSHAKE_DONE read in {opened} of them with keys")
    print("CPU seconds, user + system, of whole commands on the same captures one after the other:")
    print(
        f"  tshark -2, key log, {len(FIELDS)} fields: {totals['tshark']:.2f} (peak {peaks['tshark']:.0f} MB)"
    )
    missed = 0
    for name, goal in (("keys", LEAST_WITH_KEYS), ("without", LEAST_WITHOUT)):
        ratio = totals["tshark"] / totals[name]
        missed += ratio < goal
        label = "with keys" if name == "keys" else "without keys"
        print(
            f"  dissect, quic_connection {label}: {totals[name]:.2f} (peak {peaks[name]:.0f} MB): {ratio:.1f}"
        )
        print(f"    times less (goal {goal:.0f})")
    return missed


def memory(length: int) -> int:
    """Peak memory on a capture of `length` bytes that is made while it is read; 1 if above the limit."""
    dissect, captures = native.find("firstflight-dissect"), native.find("firstflight-captures")
    # A copy of each recording is this long on average.
    average = sum(path.stat().st_size for path in RECORDINGS) / len(RECORDINGS)
    handshakes = int(length / average)
    argv = [str(captures), *map(str, RECORDINGS), "--handshakes", str(handshakes), "--rate", str(RATE)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as maker:
        assert maker.stdout is not None
        used = run([dissect, "-", "--kind", "quic_connection"], source=maker.stdout.fileno())
    print(f"memory on about {length / 1e9:.1f} GB ({handshakes} handshakes, {RATE} begun in a second): peak")
    print(f"  {used.peak_mb:.0f} MB resident (limit {MOST_MB:.0f}), {used.cpu_s:.2f} CPU seconds")
    return int(used.peak_mb > MOST_MB)


def main() -> int:
    """Measure and print; the number of goals missed."""
    parser = argparse.ArgumentParser(prog="bench dissector")
    parser.add_argument("--handshakes", type=int, default=200_000)
    parser.add_argument("--long-bytes", type=int, default=LONG_BYTES)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="firstflight-bench-") as folder:
        missed = beside_tshark(Path(folder), options.handshakes)
    return missed + memory(options.long_bytes)


if __name__ == "__main__":
    sys.exit(main())
