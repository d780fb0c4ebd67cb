"""What the prober costs at low rates, where nearly all is for waking up: a part of `python -m bench prober`.

Beside it, what the kernel alone charges for the same sends, stamps and datagrams in the same rhythm
(bench/kernel_alone): no prober can take less.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from bench import process
from bench.prober_runs import command, probe, targets_in
from firstflight.system import binaries

# What the others are compared with, per second.
RATE = 2_000
# CPU time per target at these rates, for so many targets each, at most so many times that at RATE.
LOW_RATES = (50, 200, 500, 1000)
LOW_TARGETS = 2_000
LOW_RATIO = 1.5
# How many of the prober's new probes leave in one pass at each rate (first_answer/src/pace.rs, which tests
# it; at RATE those of the 2 ms that it sleeps).
TOGETHER = {50: 5, 200: 8, 500: 7, 1000: 4, RATE: 4}
# A watch of one probe a minute: so many minutes, and the greatest share of a core.
WATCH_MINUTES = 2
WATCH_SHARE = 0.002


def low_rates(folder: Path, port: int, targets: int) -> bool:
    """Print what a target costs at low rates beside RATE, the start of the process included and not.

    Return whether the goal is met at each, the start of the process included.
    """
    path = targets_in(folder, port, targets)
    one = folder / "one.csv"
    one.write_text("".join(path.read_text().splitlines(keepends=True)[:2]))
    starts = [probe(folder, one, ["--rate", str(RATE)], "json").used.cpu_s for _ in range(3)]
    start_s = statistics.median(starts)
    print(
        f"low rates: {targets} targets at each, {process.load()}; a process with one target takes "
        f"{1e3 * start_s:.1f} ms of CPU time (median of three)"
    )
    # The rate that the others are compared with comes before and after them: the machine changes.
    costs: dict[int, list[process.Used]] = {}
    alone_us: dict[int, list[float | None]] = {}
    for rate in (RATE, *LOW_RATES, RATE):
        used = probe(folder, path, ["--rate", str(rate)], "json").used
        costs.setdefault(rate, []).append(used)
        alone_us.setdefault(rate, []).append(_kernel_alone_us(port, rate, targets))
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
        alone, alone_beside = (_mean(alone_us[one]) for one in (rate, RATE))
        if alone is None or alone_beside is None:
            print("    the kernel alone: not known, since not all targets were answered and stamped")
            continue
        # What the prober does beside it costs at least as much where caches have been used by others.
        least = 1 + (alone - alone_beside) / (1e6 * beside / targets)
        print(
            f"    the kernel alone, {TOGETHER[rate]} in a pass: {alone:.1f} us per target; with what the "
            f"prober adds to it at {RATE}/s: {least:.2f} times"
        )
    return kept


def _kernel_alone_us(port: int, rate: int, targets: int) -> float | None:
    """Return the CPU time that a target costs a loop which only sleeps, reads and sends, in microseconds.

    bench/kernel_alone has the prober's socket options and its rhythm: no prober can take less. None if not
    all targets were answered and stamped.
    """
    together = TOGETHER[rate]
    argv = [str(binaries.find("firstflight-kernel-alone")), "--port", str(port), "--rate", str(rate)]
    argv += ["--together", str(together), "--targets", str(targets)]
    done = subprocess.run(argv, stdout=subprocess.PIPE)
    if done.returncode != 0:
        return None
    found = json.loads(done.stdout)
    # Those of the last pass are not closed.
    sent = 2 * targets - (targets % together or together)
    if (found["sent"], found["datagrams"], found["stamps"]) != (sent, 2 * targets, targets):
        return None
    return 1e6 * float(found["cpu_s"]) / targets


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.mean(known) if len(known) == len(values) else None


def _system_calls(folder: Path, targets: Path, rate: int, count: int) -> str:
    """Return how many system calls a target costs, in a run of its own (strace -c -f)."""
    strace = shutil.which("strace")
    if strace is None:
        return "(strace is missing) unknown"
    calls = folder / "calls"
    argv = [strace, "-f", "-c", "-U", "calls,name", "-o", str(calls), *command(folder, targets)]
    process.run([*argv, "--rate", str(rate)], out=folder / "rows.jsonl", quiet=True)
    found = re.findall(r"^ *(\d+) +(?!total)\S+$", calls.read_text(), re.M)
    return f"{sum(map(int, found)) / count:.2f}"


def watch(folder: Path, port: int, minutes: int) -> bool:
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
