"""Measure speed, memory and rate of the native prober: `python -m bench prober`.

The peer is bench/responder on loopback, which serves all of 127.0.0.0/8. For each target, the prober sends an
Initial of 1252 bytes, receives two datagrams of 1200 bytes (an instant ACK, then ServerHello and a Handshake
packet), decrypts and classifies both, sends a close of 1200 bytes, reads both kernel timestamps and writes a
record. CPU time is the time that the kernel charges the prober's process (user + system, all threads, from
start to end), so other programs on the machine matter little. low_rates.py measures low rates.

`--only NAME...` makes only some measurements.
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from bench import process, results
from bench.engines.kernel_alone import PASSES_TARGETS, KernelAlone, kernel_passes
from bench.engines.low_rates import LOW_TARGETS, RATE, WATCH_MINUTES, low_rates, watch
from bench.engines.prober_runs import probe, targets_in
from firstflight.system import binaries
from tests.free_port import free_port

RESULT = "prober"
SPEED_TARGETS = 400_000
SPEED_LIMIT = 60_000
MEMORY_TARGETS = 1_000_000
MEMORY_LIMIT_MB = 300
RATE_SECONDS = 30
# Higher than the prober can reach, so that the rate never limits it.
UNLIMITED = 200_000
MEASUREMENTS = ("speed", "memory", "rate", "low_rates", "kernel_passes", "watch")


def main() -> int:
    """Measure and print; return 1 if a limit or a goal is exceeded."""
    parser = argparse.ArgumentParser(prog="bench prober")
    parser.add_argument("--quick", action="store_true", help="a tenth of the targets, a third of the time")
    parser.add_argument("--only", nargs="+", choices=MEASUREMENTS, default=MEASUREMENTS, metavar="NAME")
    results.add_option(parser)
    options = parser.parse_args()
    file = results.begin(parser, options.result, RESULT)
    values = results.Values()
    with tempfile.TemporaryDirectory(prefix="firstflight-bench-") as name:
        folder = Path(name)
        port = free_port()
        responder = subprocess.Popen(
            [binaries.find("firstflight-responder"), "--listen", f"0.0.0.0:{port}"], stdout=subprocess.PIPE
        )
        try:
            assert responder.stdout is not None and responder.stdout.readline() == b"READY\n"
            goals_met = _measure(folder, port, options.quick, values, options.only)
        finally:
            responder.kill()
            responder.wait()
    file.write(values.lines, results.packages())
    return int(not goals_met)


def _measure(
    folder: Path, port: int, quick: bool, values: results.Values, only: Sequence[str] = MEASUREMENTS
) -> bool:
    """Make the measurements, even after a missed limit; return whether all limits and goals are met."""
    kernel = KernelAlone()
    scale = 10 if quick else 1
    fewer = 4 if quick else 1
    measurements: dict[str, Callable[[], bool]] = {
        "speed": lambda: _speed(folder, port, SPEED_TARGETS // scale, values),
        "memory": lambda: _memory(folder, port, MEMORY_TARGETS // scale, values),
        "rate": lambda: _rate(folder, port, RATE_SECONDS // (3 if quick else 1), values),
        "low_rates": lambda: low_rates(folder, port, LOW_TARGETS // fewer, kernel, values),
        "kernel_passes": lambda: kernel_passes(port, PASSES_TARGETS // fewer, values),
        "watch": lambda: watch(folder, port, 1 if quick else WATCH_MINUTES, values),
    }
    goals_met = [measurements[name]() for name in MEASUREMENTS if name in only]
    return all(goals_met)


def _speed(folder: Path, port: int, targets: int, values: results.Values) -> bool:
    speeds: dict[str, float] = {}
    for sink in ("json", "segments"):
        cost = probe(folder, targets_in(folder, port, targets), ["--rate", str(UNLIMITED)], sink)
        answered = cost.summary["outcomes"]["iack"]
        used = cost.used
        print(
            f"speed: {answered / used.cpu_s:.0f} targets per CPU second ({sink}): {answered} of {targets} "
            f"answered, {used.cpu_s:.2f} s CPU ({used.user_s:.2f} user), "
            f"{cost.summary['duration_s']:.1f} s wall, {process.load()}"
        )
        speeds[sink] = answered / used.cpu_s
    print(f"  limit {SPEED_LIMIT}; wait4() of the prober's process: from reading the list to the last record")
    print(f"targets_per_cpu_second {max(speeds.values()):.0f}")
    values.add("targets per CPU second, records as JSON lines", speeds["json"])
    values.add("targets per CPU second, records as segments", speeds["segments"])
    return values.add("the faster of the two", max(speeds.values()), least=SPEED_LIMIT)


def _memory(folder: Path, port: int, targets: int, values: results.Values) -> bool:
    options = ["--rate", str(UNLIMITED), "--timeout", "2"]
    cost = probe(folder, targets_in(folder, port, targets), options, "json")
    answered = cost.summary["outcomes"]["iack"]
    print(
        f"memory: {cost.used.peak_mb:.0f} MB at most resident with {targets} targets, {answered} of them "
        f"answered (limit {MEMORY_LIMIT_MB}); ru_maxrss of the prober's process"
    )
    silent = targets_in(folder, free_port(), targets // 5)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as nobody:
        # A full receive buffer drops every datagram, like a server that never answers.
        nobody.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        port_of_nobody = int(silent.read_text().splitlines()[1].rsplit(",", 1)[1])
        nobody.bind(("0.0.0.0", port_of_nobody))
        quiet = probe(folder, silent, options, "json")
    print(
        f"  and {quiet.used.peak_mb:.0f} MB with {targets // 5} targets that are silent, "
        f"{quiet.summary['retransmissions']} second connections"
    )
    goals_met = [
        values.add(f"resident memory with {count:,} {kind} targets", peak_mb, "MB", most=MEMORY_LIMIT_MB)
        for count, kind, peak_mb in (
            (targets, "answering", cost.used.peak_mb),
            (targets // 5, "silent", quiet.used.peak_mb),
        )
    ]
    return all(goals_met)


def _rate(folder: Path, port: int, seconds: int, values: results.Values) -> bool:
    targets = RATE * seconds
    cost = probe(folder, targets_in(folder, port, targets), ["--rate", str(RATE)], "json")
    times = sorted(json.loads(line)["sent_at"] for line in (folder / "rows.jsonl").open())
    mean = (len(times) - 1) / ((times[-1] - times[0]) / 1e9)
    most, first = 0, 0
    for i, now in enumerate(times):
        while times[first] <= now - 1_000_000_000:
            first += 1
        most = max(most, i + 1 - first)
    batch: int = cost.summary["batch"]
    datagrams: int = cost.summary["max_datagrams_per_second"]
    print(
        f"rate: asked {RATE}/s for {seconds} s: mean {mean:.1f}/s ({100 * (mean / RATE - 1):+.2f} %), "
        f"at most {most} in any second (limit {RATE} + one batch of {batch}), at most {datagrams} "
        f"datagrams of all kinds (under {2 * RATE} + {batch});\n  kernel send stamps of the Initials"
    )
    goals_met = [
        values.add(
            f"deviation of the mean rate over {seconds} s at --rate {RATE}",
            100 * abs(mean / RATE - 1),
            "%",
            most=1,
        ),
        values.add("maximum number of probes in any second", most, most=RATE + batch),
        values.add("maximum number of datagrams in any second", datagrams, most=2 * RATE + batch - 1),
    ]
    return all(goals_met)


if __name__ == "__main__":
    sys.exit(main())
