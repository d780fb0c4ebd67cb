"""Measure the cost of the testbed: `python -m bench testbed`.

CPU time is the time (user + system) that the kernel charges `firstflight testbed run` and all its
descendants: guests, dissector, and processes that their parents did not wait for. The bench first measures
whole cells of 100 trials with compiled stacks. It then measures Figure 5 of the IMC paper: eight clients,
five servers, both answers, 100 repetitions.

--whole measures all of Figure 5. Otherwise the bench scales a sample: for each client and server it runs one
of the two answers, in turn, with each of SIZES repetitions. The straight line through both sizes gives the
cost of a guest before its first trial, and of a trial. The bench also prints a lower bound for the
duration of the same trials in real time: the time that clients wait, by the guests' clocks.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from bench import process, results
from bench.testbeds.testbed_cost import (
    CELL_GOAL_S,
    FIGURE_GOAL_S,
    REPETITIONS,
    RepetitionCost,
    Scaled,
    line,
    scaled,
    whole,
)
from testbed import experiment_files
from testbed.experiment import experiment
from testbed.trials.block import TrialBlock
from testbed.trials.estimate import LENGTH

ROOT = Path(__file__).parents[2]
RESULT = "testbed-cost"
FIGURE = "iack-ttfb"
CELLS = ("quiche-quiche-iack-9ms", "quic-go-quic-go-wfc-9ms", "s2n-quic-quinn-iack-9ms")
"""Cells of FIGURE with a compiled client and a compiled server."""
CLIENTS = ("quic-go", "go-x-net", "quiche", "ngtcp2", "quinn", "s2n-quic", "tquic", "aioquic")
PYTHON = "aioquic"
"""The goal does not include the cost of this client."""
SERVERS = ("aioquic", "quic-go", "quiche", "quinn", "s2n-quic")
ANSWERS = ("iack", "wfc")
SIZES = (2, 20)
_PR_SET_CHILD_SUBREAPER = 36
_ORPHANS_S = 5.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 if a goal is missed."""
    parser = argparse.ArgumentParser(prog="bench testbed")
    parser.add_argument("--whole", action="store_true", help="all of Figure 5 instead of a scaled sample")
    parser.add_argument("--only", choices=["cells", "figure"], help="measure only one of the two")
    results.add_option(parser)
    options = parser.parse_args(arguments)
    file = results.begin(parser, options.result, RESULT)
    values = results.Values()
    # Orphans of a guest become children of this process, so that their CPU time is counted.
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise SystemExit("bench: this kernel has no PR_SET_CHILD_SUBREAPER")
    goals_met = True
    with tempfile.TemporaryDirectory(prefix="firstflight-bench-") as name:
        if options.only != "figure":
            goals_met = _cells(Path(name), values)
        if options.only != "cells":
            goals_met = _figure(Path(name), values, all_of_it=options.whole) and goals_met
    file.write(values.lines, results.packages())
    return int(not goals_met)


def _cells(folder: Path, values: results.Values) -> bool:
    """Measure whole cells; return whether each meets its goal."""
    print(f"cells of {REPETITIONS} trials, compiled stacks, RTT 9 ms; {process.load()}")
    goals_met = True
    for cell in CELLS:
        cost = _run(folder / "cells" / cell, [cell], REPETITIONS)
        text = f"{REPETITIONS} trials of {cell}"
        goals_met = values.add(text, cost.cpu_s, "CPU s", most=CELL_GOAL_S) and goals_met
        values.add(f"{REPETITIONS} trials of {cell} in real time: the client waits", cost.waited_s, "s")
        print(f"  {cell}: {line(cost.cpu_s, CELL_GOAL_S, 's')}; {cost.in_real_time()}", flush=True)
    return goals_met


def _figure(folder: Path, values: results.Values, *, all_of_it: bool) -> bool:
    """Measure Figure 5, or a sample; return whether it meets its goal."""
    how = "all of it" if all_of_it else f"scaled from {SIZES[0]} and {SIZES[1]} repetitions of half the cells"
    print(f"Figure 5, {REPETITIONS} repetitions, {how}; {process.load()}")
    # A resumed run without trials left gives the cost of the command itself.
    _run(folder / "start", sample(CLIENTS[0])[:1], 1)
    start_s = _run(folder / "start", sample(CLIENTS[0])[:1], 1, resume=True).cpu_s
    usages: dict[str, Scaled] = {}
    for client in CLIENTS:
        cells = available(of_client(client))
        place = folder / "figure" / client
        if all_of_it:
            usages[client] = whole(_run(place, cells, REPETITIONS), start_s)
        else:
            few, many = (_run(place / str(size), available(sample(client)), size) for size in SIZES)
            usages[client] = scaled(few, many, start_s, cells=len(cells), length=LENGTH)
        print(f"  {client}, {len(cells)} cells: {usages[client]}", flush=True)
    compiled = [usage for client, usage in usages.items() if client != PYTHON]
    cpu_s = start_s + sum(usage.cpu_s for usage in compiled)
    waited_s, real_s = (
        sum(times) for times in zip(*((usage.waited_s, usage.real_s) for usage in compiled), strict=True)
    )
    print(
        f"  all but {PYTHON}, the command's start of {start_s:.2f} s included: "
        f"{line(cpu_s / 60, FIGURE_GOAL_S / 60, 'min')}; in real time clients wait {waited_s / 60:.0f} min, "
        f"{real_s / 60:.0f} min with the pauses between trials; {process.load()}"
    )
    values.add(f"Figure 5, client {PYTHON}", usages[PYTHON].cpu_s / 60, "CPU min")
    values.add("Figure 5, other clients in real time: they wait", waited_s / 60, "min")
    return values.add("Figure 5, other clients", cpu_s / 60, "CPU min", most=FIGURE_GOAL_S / 60)


def of_client(client: str) -> Iterator[str]:
    """Yield the names of a client's cells of FIGURE."""
    for server in SERVERS:
        yield from (f"{client}-{server}-{answer}-9ms" for answer in ANSWERS)


def sample(client: str) -> list[str]:
    """Return one cell of a client with each server; the answers alternate over clients and servers."""
    first = CLIENTS.index(client)
    turns = (ANSWERS[(first + number) % 2] for number in range(len(SERVERS)))
    return [f"{client}-{server}-{answer}-9ms" for server, answer in zip(SERVERS, turns, strict=True)]


def available(cells: Iterable[str]) -> list[str]:
    """Return the cells in which both programs share a protocol: go-x-net supports only HTTP/0.9."""
    cells_by_name = {cell.name: cell for cell in experiment_files.find(FIGURE).cells()}
    return [name for name in cells if TrialBlock(FIGURE, cells_by_name[name], 1, 1).unavailable() is None]


def _run(out: Path, cells: Sequence[str], repetitions: int, *, resume: bool = False) -> RepetitionCost:
    """Run all trials of `cells` and return their cost. SystemExit if a trial is missing."""
    names = [cell.name for cell in experiment.chosen(experiment_files.find(FIGURE), tuple(cells))]
    if sorted(names) != sorted(cells):
        raise SystemExit(f"bench: {FIGURE} has other cells than {', '.join(cells)}: {', '.join(names)}")
    argv = [sys.executable, "-m", "cli", "testbed", "run", FIGURE, "--cells", ",".join(cells)]
    argv += [
        "--seeds",
        str(repetitions),
        "--drop-captures",
        "--out",
        str(out),
        *(["--resume"] if resume else []),
    ]
    with contextlib.chdir(ROOT):
        used = process.run(argv, quiet=True)
    trials = [
        trial
        for file in sorted((out / FIGURE).glob("*/*/trials.jsonl"))
        for trial in map(json.loads, file.read_text(encoding="utf-8").splitlines())
        if trial["repetition"]
    ]
    if len(trials) != len(cells) * repetitions:
        raise SystemExit(
            f"bench: {len(trials)} trials of {len(cells)} cells were done, not {repetitions} each"
        )
    waited_s = sum(trial["ended_ns"] - trial["begun_ns"] for trial in trials) / 1e9
    return RepetitionCost(used.cpu_s + _orphans_cpu_s(), len(cells), repetitions, waited_s)


def _orphans_cpu_s() -> float:
    """Wait for the orphans of the last command; return their CPU seconds."""
    cpu_s, end = 0.0, time.monotonic() + _ORPHANS_S
    while time.monotonic() < end:
        try:
            ended, _, usage = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return cpu_s
        if ended:
            cpu_s += usage.ru_utime + usage.ru_stime
        else:
            time.sleep(0.01)
    raise SystemExit("bench: processes of a guest still run after its end")


if __name__ == "__main__":
    sys.exit(main())
