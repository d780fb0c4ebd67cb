"""Measure the prober at low rates, where wake-ups dominate its cost: a part of `python -m bench prober`.

Also measures the cost of the kernel for the same datagrams and timestamps, sent at the same rate and in the
same batches (bench/kernel_alone). This is a lower bound for any prober.
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

from bench import process, results
from bench.engines.kernel_alone import TOGETHER, KernelAlone
from bench.engines.prober_runs import command, probe, targets_in
from firstflight.system import binaries

# Reference rate, in new probes per second.
RATE = 2_000
# Goal at each of LOW_RATES with LOW_TARGETS targets: at most LOW_RATIO times the CPU time per target at RATE.
LOW_RATES = (50, 200, 500, 1000)
LOW_TARGETS = 2_000
LOW_RATIO = 1.5
# A watch with a probe per minute: its length, and a core's maximum share.
WATCH_MINUTES = 2
WATCH_SHARE = 0.002


def us_per_target(rate: int) -> str:
    """Return the name of a rate's CPU time in the result file."""
    return f"CPU time per target at {rate:,}/s"


def low_rates(folder: Path, port: int, targets: int, kernel: KernelAlone, values: results.Values) -> bool:
    """Print the CPU time per target at low rates and at RATE, with and without the start of the process.

    Adds the kernel's share at each rate to `kernel`. Return whether each rate meets the goal, with the start
    of the process included.
    """
    path = targets_in(folder, port, targets)
    single_target = folder / "one.csv"
    single_target.write_text("".join(path.read_text().splitlines(keepends=True)[:2]))
    starts = [probe(folder, single_target, ["--rate", str(RATE)], "json").used.cpu_s for _ in range(3)]
    start_s = statistics.median(starts)
    print(
        f"low rates: {targets} targets at each, {process.load()}; a process with one target takes "
        f"{1e3 * start_s:.1f} ms of CPU time (median of three)"
    )
    # RATE is measured before and after the others, since the load of the machine changes.
    costs: dict[int, list[process.Used]] = {}
    for rate in (RATE, *LOW_RATES, RATE):
        used = probe(folder, path, ["--rate", str(rate)], "json").used
        costs.setdefault(rate, []).append(used)
        kernel.measure(port, rate, targets)
    at_rate_s = statistics.mean(used.cpu_s for used in costs[RATE])
    goals_met = True
    for rate, runs in sorted(costs.items()):
        cpu_s = statistics.mean(used.cpu_s for used in runs)
        sleeps = statistics.mean(used.sleeps for used in runs)
        each_us, without_us = 1e6 * cpu_s / targets, 1e6 * (cpu_s - start_s) / targets
        ratio = cpu_s / at_rate_s
        values.add(us_per_target(rate), each_us, "us")
        if rate != RATE:
            text = f"{us_per_target(rate)}, compared with {RATE:,}/s"
            goals_met = values.add(text, ratio, "times", most=LOW_RATIO) and goals_met
        goal = "" if rate == RATE else f" (goal {LOW_RATIO}: {'met' if ratio <= LOW_RATIO else 'missed'})"
        print(
            f"  {rate}/s: {each_us:.1f} us of CPU time per target, {without_us:.1f} without the start, "
            f"{100 * cpu_s * rate / targets:.2f} % of a core; {sleeps / targets:.2f} sleeps and "
            f"{_system_calls(folder, path, rate, targets)} system calls per target; {ratio:.2f} times the "
            f"CPU time at {RATE}/s{goal}"
        )
        alone, alone_beside = kernel.at(rate), kernel.at(RATE)
        values.add(f"the kernel's share at {rate:,}/s, {TOGETHER[rate]} probes in a pass", alone, "us")
        if alone is None or alone_beside is None:
            print("    the kernel: unknown, since not all targets were answered and timestamped")
            continue
        # The prober's other work costs at least as much as at RATE if other programs have used the caches.
        least = 1 + (alone - alone_beside) / (1e6 * at_rate_s / targets)
        print(
            f"    the kernel, {TOGETHER[rate]} in a pass: {alone:.1f} us per target; with the other work of "
            f"the prober at {RATE}/s: {least:.2f} times"
        )
        if rate != RATE:
            values.add(f"smallest possible ratio at {rate:,}/s, with this share", least, "times")
    return goals_met


def _system_calls(folder: Path, targets: Path, rate: int, count: int) -> str:
    """Return the number of system calls per target, measured in a separate run (strace -c -f)."""
    strace = shutil.which("strace")
    if strace is None:
        return "(strace is missing) unknown"
    calls = folder / "calls"
    argv = [strace, "-f", "-c", "-U", "calls,name", "-o", str(calls), *command(folder, targets)]
    process.run([*argv, "--rate", str(rate)], out=folder / "rows.jsonl", quiet=True)
    counts = re.findall(r"^ *(\d+) +(?!total)\S+$", calls.read_text(), re.M)
    return f"{sum(map(int, counts)) / count:.2f}"


def watch(folder: Path, port: int, minutes: int, values: results.Values) -> bool:
    """Print the share of a core that a prober uses for a feed with a probe per minute.

    Return whether the share is below the goal.
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
    values.add("a watch with one probe per minute: sleeps per second", usage.ru_nvcsw / passed)
    return values.add(
        "a watch with one probe per minute: share of a core", 100 * share, "%", most=100 * WATCH_SHARE
    )
