"""Measure speed, memory and rate of the native prober: `python -m bench prober`.

The peer is bench/responder on loopback, which serves all of 127.0.0.0/8. Each target costs the prober an
Initial of 1252 bytes, two datagrams of 1200 bytes (an instant ACK, then ServerHello and a Handshake packet),
both decrypted and classified, a close of 1200 bytes, both kernel stamps and a record. CPU time is what the
kernel charged the prober's process (user + system, all threads, from start to end), so that other programs on
the machine matter little.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import process
from firstflight.system import binaries

SPEED_TARGETS = 400_000
SPEED_LIMIT = 60_000
MEMORY_TARGETS = 1_000_000
MEMORY_LIMIT_MB = 300
RATE = 2_000
RATE_SECONDS = 30
# CPU time per target at these rates, for so many targets each, at most so many times that at RATE.
LOW_RATES = (50, 200, 500, 1000)
LOW_TARGETS = 2_000
LOW_RATIO = 1.5
# A watch of one probe a minute: so many minutes, and the greatest share of a core.
WATCH_MINUTES = 2
WATCH_SHARE = 0.002
# More than the prober can reach, so that the rate never limits it.
UNLIMITED = 200_000


@dataclass(frozen=True)
class Cost:
    """The cost of a run, and its own summary."""

    used: process.Used
    summary: dict[str, Any]


def main() -> int:
    """Measure and print; return 1 if a limit or a goal is exceeded."""
    parser = argparse.ArgumentParser(prog="bench prober")
    parser.add_argument("--quick", action="store_true", help="a tenth of the targets, a third of the time")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="firstflight-bench-") as name:
        folder = Path(name)
        port = _free_port()
        responder = subprocess.Popen(
            [binaries.find("firstflight-responder"), "--listen", f"0.0.0.0:{port}"], stdout=subprocess.PIPE
        )
        try:
            assert responder.stdout is not None and responder.stdout.readline() == b"READY\n"
            kept = _measure(folder, port, options.quick)
        finally:
            responder.kill()
            responder.wait()
    return int(not kept)


def _measure(folder: Path, port: int, quick: bool) -> bool:
    """Measure all, whatever the first ones give; return whether all limits and goals are kept."""
    scale = 10 if quick else 1
    kept = [
        _speed(folder, port, SPEED_TARGETS // scale),
        _memory(folder, port, MEMORY_TARGETS // scale),
        _rate(folder, port, RATE_SECONDS // (3 if quick else 1)),
        _low_rates(folder, port, LOW_TARGETS // (4 if quick else 1)),
        _watch(folder, port, 1 if quick else WATCH_MINUTES),
    ]
    return all(kept)


def _speed(folder: Path, port: int, targets: int) -> bool:
    best: Cost | None = None
    for sink in ("json", "segments"):
        cost = _probe(folder, _list(folder, port, targets), ["--rate", str(UNLIMITED)], sink)
        answered = cost.summary["outcomes"]["iack"]
        used = cost.used
        print(
            f"speed: {answered / used.cpu_s:.0f} targets per CPU second ({sink}): {answered} of {targets} "
            f"answered, {used.cpu_s:.2f} s CPU ({used.user_s:.2f} user), "
            f"{cost.summary['duration_s']:.1f} s wall, {process.load()}"
        )
        if best is None or answered / cost.used.cpu_s > best.summary["outcomes"]["iack"] / best.used.cpu_s:
            best = cost
    assert best is not None
    print(f"  limit {SPEED_LIMIT}; wait4() of the prober's process: from reading the list to the last record")
    speed = best.summary["outcomes"]["iack"] / best.used.cpu_s
    print(f"targets_per_cpu_second {speed:.0f}")
    return bool(speed >= SPEED_LIMIT)


def _memory(folder: Path, port: int, targets: int) -> bool:
    options = ["--rate", str(UNLIMITED), "--timeout", "2"]
    cost = _probe(folder, _list(folder, port, targets), options, "json")
    answered = cost.summary["outcomes"]["iack"]
    print(
        f"memory: {cost.used.peak_mb:.0f} MB at most resident with {targets} targets, {answered} of them "
        f"answered (limit {MEMORY_LIMIT_MB}); ru_maxrss of the prober's process"
    )
    silent = _list(folder, _free_port(), targets // 5)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as nobody:
        # A full receive buffer drops every datagram: a server that never answers.
        nobody.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        port_of_nobody = int(silent.read_text().splitlines()[1].rsplit(",", 1)[1])
        nobody.bind(("0.0.0.0", port_of_nobody))
        quiet = _probe(folder, silent, options, "json")
    print(
        f"  and {quiet.used.peak_mb:.0f} MB with {targets // 5} targets that are silent, "
        f"{quiet.summary['retransmissions']} second connections"
    )
    return max(cost.used.peak_mb, quiet.used.peak_mb) <= MEMORY_LIMIT_MB


def _rate(folder: Path, port: int, seconds: int) -> bool:
    targets = RATE * seconds
    cost = _probe(folder, _list(folder, port, targets), ["--rate", str(RATE)], "json")
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
    return abs(mean / RATE - 1) <= 0.01 and most <= RATE + batch and datagrams < 2 * RATE + batch


def _low_rates(folder: Path, port: int, targets: int) -> bool:
    """Print what a target costs at low rates beside RATE, the start of the process included and not.

    Return whether the goal is met at each, the start of the process included.
    """
    path = _list(folder, port, targets)
    one = folder / "one.csv"
    one.write_text("".join(path.read_text().splitlines(keepends=True)[:2]))
    starts = [_probe(folder, one, ["--rate", str(RATE)], "json").used.cpu_s for _ in range(3)]
    start_s = statistics.median(starts)
    print(
        f"low rates: {targets} targets at each, {process.load()}; a process with one target takes "
        f"{1e3 * start_s:.1f} ms of CPU time (median of three)"
    )
    # The rate that the others are compared with comes before and after them: the machine changes.
    costs: dict[int, list[process.Used]] = {}
    for rate in (RATE, *LOW_RATES, RATE):
        used = _probe(folder, path, ["--rate", str(rate)], "json").used
        costs.setdefault(rate, []).append(used)
    beside = statistics.mean(used.cpu_s for used in costs[RATE])
    kept = True
    for rate, runs in sorted(costs.items()):
        cpu_s = statistics.mean(used.cpu_s for used in runs)
        sleeps = statistics.mean(used.sleeps for used in runs)
        each_us, without_us = 1e6 * cpu_s / targets, 1e6 * (cpu_s - start_s) / targets
        ratio = cpu_s / beside
        kept = kept and ratio <= LOW_RATIO
        goal = "" if rate == RATE else f" (goal {LOW_RATIO}: {'met' if ratio <= LOW_RATIO else 'missed'})"
        print(
            f"  {rate}/s: {each_us:.1f} us of CPU time per target, {without_us:.1f} without that of one, "
            f"{100 * cpu_s * rate / targets:.2f} % of a core; {sleeps / targets:.2f} sleeps and "
            f"{_system_calls(folder, path, rate, targets)} system calls per target; {ratio:.2f} times the "
            f"CPU time at {RATE}/s{goal}"
        )
    return kept


def _system_calls(folder: Path, targets: Path, rate: int, count: int) -> str:
    """Return how many system calls a target costs, in a run of its own (strace -c -f)."""
    strace = shutil.which("strace")
    if strace is None:
        return "(strace is missing) unknown"
    calls = folder / "calls"
    argv = [strace, "-f", "-c", "-U", "calls,name", "-o", str(calls), *_command(folder, targets)]
    process.run([*argv, "--rate", str(rate)], out=folder / "rows.jsonl", quiet=True)
    found = re.findall(r"^ *(\d+) +(?!total)\S+$", calls.read_text(), re.M)
    return f"{sum(map(int, found)) / count:.2f}"


def _watch(folder: Path, port: int, minutes: int) -> bool:
    """Print the share of a core that a prober takes whose feed has one probe a minute.

    Return whether it is small enough.
    """
    argv = [str(binaries.find("firstflight-prober")), "--feed", "--summary", str(folder / "summary.json")]
    with tempfile.TemporaryDirectory(dir=folder) as segments, tempfile.TemporaryFile("w+") as errors:
        argv += ["--segments", segments, "--allow-net", "127.0.0.0/8"]
        prober = subprocess.Popen(argv, stdin=subprocess.PIPE, stderr=errors, text=True)
        assert prober.stdin is not None
        began = time.monotonic()
        for minute in range(minutes):
            at = time.time_ns() + (60 * minute + 30) * 1_000_000_000
            prober.stdin.write(f"slot {2**31 + minute} {at} 1000 1 0 127.0.0.1 {port} a.test\n")
        prober.stdin.flush()
        time.sleep(60 * minutes)
        prober.stdin.write("end\n")
        prober.stdin.close()
        _, status, usage = os.wait4(prober.pid, 0)
        passed = time.monotonic() - began
        prober.returncode = os.waitstatus_to_exitcode(status)
    answered = json.loads((folder / "summary.json").read_text())["outcomes"]["iack"]
    if (prober.returncode, answered) != (0, minutes):
        raise SystemExit(f"bench: {answered} of {minutes} planned probes were answered")
    share = (usage.ru_utime + usage.ru_stime) / passed
    print(
        f"watch: one planned probe a minute for {passed:.0f} s: {100 * share:.3f} % of a core in all, "
        f"{usage.ru_nvcsw / passed:.1f} sleeps a second; goal under {100 * WATCH_SHARE} %: "
        f"{'met' if share < WATCH_SHARE else 'missed'}"
    )
    return share < WATCH_SHARE


def _list(folder: Path, port: int, targets: int) -> Path:
    path = folder / "targets.csv"
    with path.open("w") as out:
        out.write("ip,domain,port\n")
        for i in range(1, targets + 1):
            out.write(f"127.{i >> 16 & 255}.{i >> 8 & 255}.{i & 255},www.example-{i:07}.test,{port}\n")
    return path


def _probe(folder: Path, targets: Path, options: Sequence[str], sink: str) -> Cost:
    """Run the prober once; its records go to `rows.jsonl`, or to segments that are removed."""
    argv = [*_command(folder, targets), *options]
    with tempfile.TemporaryDirectory(dir=folder) as segments:
        if sink == "segments":
            argv += ["--segments", segments]
        used = process.run(argv, out=folder / "rows.jsonl", quiet=True)
    return Cost(used, json.loads((folder / "summary.json").read_text()))


def _command(folder: Path, targets: Path) -> list[str]:
    """Return the prober's command line; its summary goes to `summary.json`."""
    argv = [str(binaries.find("firstflight-prober")), "--targets", str(targets)]
    argv += ["--summary", str(folder / "summary.json"), "--allow-net", "127.0.0.0/8"]
    return [*argv, "--per-address-rate", "0", "--per-prefix-rate", "0"]


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("0.0.0.0", 0))
        port: int = free.getsockname()[1]
        return port


if __name__ == "__main__":
    sys.exit(main())
