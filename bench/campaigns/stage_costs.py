"""Measure the cost of each stage in a command by sampling its processes while they run.

The sum of CPU time is exact: after a process exits, its parent's account of ended children (proc(5): cutime
and cstime) contains the time since the last sample. Memory is the largest value of any sample, so a peak
shorter than the time between samples may be missed.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from bench.process import TICKS_PER_S
from bench.process import ticks as process_ticks

EVERY_S = 0.05
SHOWN_LINES = 20
"""Number of lines to show from a failed command's output."""
PYTHON, OTHER = "Python", "other"
_PROGRAMS = {
    "firstflight-prober": "prober",
    "firstflight-resolve": "engine",
    "firstflight-dissect": "dissector",
    "tcpdump": "tcpdump",
}


@dataclass
class StageCost:
    """A stage's cost: CPU seconds by program, largest process, times of the first and last sample.

    `peaks`: the anonymous bytes of each program's largest process.
    """

    cpu_s: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    peaks: dict[str, int] = field(default_factory=dict)
    first_s: float = 0.0
    last_s: float = 0.0

    @property
    def peak_bytes(self) -> int:
        """Anonymous bytes of the largest process."""
        return max(self.peaks.values(), default=0)

    @property
    def peak_program(self) -> str:
        """Program of the largest process; empty without a sample."""
        return max(self.peaks, key=self.peaks.__getitem__, default="")

    @property
    def all_cpu_s(self) -> float:
        """The programs' total CPU seconds."""
        return sum(self.cpu_s.values())

    @property
    def wall_s(self) -> float:
        """Seconds from the first sample to the last."""
        return self.last_s - self.first_s


Costs = defaultdict[str, StageCost]


@dataclass(frozen=True)
class Sample:
    """A process at one moment: parent (0: not sampled), argument list, CPU time, memory.

    `own`, `ended`: clock ticks of the process, and of ended children.
    """

    parent: int
    words: tuple[str, ...]
    own: int
    ended: int
    anonymous_bytes: int


class Account:
    """Attributes samples of a tree of processes to stages.

    `stage_of` takes an argument list and returns the process's current stage, or `None` for its parent's
    stage.
    """

    def __init__(self, stage_of: Callable[[Sequence[str]], str | None], root_stage: str) -> None:
        self.costs: Costs = defaultdict(StageCost)
        self._stage_of = stage_of
        self._root_stage = root_stage
        self._last: dict[int, Sample] = {}
        # Process id -> (stage, program) in the last samples.
        self._known: dict[int, tuple[str, str]] = {}

    def add(self, samples: Mapping[int, Sample], now_s: float) -> None:
        """Add the samples of all living processes, by process id, parents first."""
        known: dict[int, tuple[str, str]] = {}
        for pid, sample in samples.items():
            above = known.get(sample.parent, (self._root_stage, ""))[0]
            stage = self._stage_of(sample.words) or above
            known[pid] = (stage, program_of(sample.words))
            before = self._last.get(pid)
            self._charge(known[pid], sample.own - (before.own if before else 0))
            cost = self.costs[stage]
            cost.first_s, cost.last_s = cost.first_s or now_s, now_s
            program = known[pid][1]
            cost.peaks[program] = max(cost.peaks.get(program, 0), sample.anonymous_bytes)
        for pid, sample in samples.items():
            self._charge_ended(pid, sample, samples, known[pid][0])
        self._last, self._known = dict(samples), known

    def finish(self, total_s: float) -> None:
        """Charge the root's stage with the rest of `total_s`, the whole tree's CPU time."""
        missing = total_s - sum(cost.all_cpu_s for cost in self.costs.values())
        self.costs[self._root_stage].cpu_s[PYTHON] += missing

    def _charge(self, to: tuple[str, str], ticks: int) -> None:
        if ticks:
            self.costs[to[0]].cpu_s[to[1]] += ticks / TICKS_PER_S

    def _charge_ended(self, pid: int, now: Sample, samples: Mapping[int, Sample], stage: str) -> None:
        """Charge the CPU time that ended children of a process used after their last sample."""
        before = self._last.get(pid)
        ticks = now.ended - (before.ended if before else 0)
        ended = [(p, s) for p, s in self._last.items() if s.parent == pid and p not in samples]
        if ticks == 0 and not ended:
            return
        ticks -= sum(s.own + s.ended for _, s in ended)
        largest = max(ended, key=lambda process: process[1].own, default=None)
        self._charge((stage, OTHER) if largest is None else self._known[largest[0]], ticks)


def program_of(words: Sequence[str]) -> str:
    """Return the name of a process's program in tables."""
    name = Path(words[0]).name if words else ""
    return _PROGRAMS.get(name, PYTHON if name.startswith("python") else OTHER)


def run(
    argv: Sequence[str],
    stage_of: Callable[[Sequence[str]], str | None],
    root_stage: str,
    *,
    env: Mapping[str, str],
    log: Path,
) -> Costs:
    """Run a command to its end and return the stages' costs; write the output to `log`.

    Takes a sample every EVERY_S seconds. SystemExit with the last lines of output if it fails.
    """
    account = Account(stage_of, root_stage)
    with log.open("wb") as output:
        process = subprocess.Popen(argv, env=env, stdout=output, stderr=output, stdin=subprocess.DEVNULL)
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        began = time.monotonic()
        account.add(_snapshot(process.pid), began)
        time.sleep(max(0.0, EVERY_S - (time.monotonic() - began)))
    process.returncode = os.waitstatus_to_exitcode(status)
    account.finish(usage.ru_utime + usage.ru_stime)
    if process.returncode != 0:
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or [""]
        before = "".join(f"\n  {line}" for line in lines[-SHOWN_LINES:-1])
        raise SystemExit(
            f"bench: {' '.join(argv)} ended with status {process.returncode}: {lines[-1]}{before}"
        )
    return account.costs


_words: dict[int, tuple[str, ...]] = {}


def _snapshot(root: int) -> dict[int, Sample]:
    """Sample a process and all its descendants, parents first."""
    while True:
        found: dict[int, Sample] = {}
        waiting = [(root, 0)]
        try:
            while waiting:
                pid, parent = waiting.pop()
                found[pid], children = _sample(pid, parent)
                waiting += [(child, pid) for child in children]
            return found
        except (OSError, IndexError):  # a process has just ended: read all again to find its parent's account
            continue


def _sample(pid: int, parent: int) -> tuple[Sample, list[int]]:
    """Read one process and its children's ids. Ended children are only in the process's account."""
    at = Path(f"/proc/{pid}")
    while True:
        before = process_ticks(pid)
        # Only the main threads of these programs start others.
        children = [int(word) for word in (at / "task" / str(pid) / "children").read_text().split()]
        own, ended = process_ticks(pid)
        if ended == before[1]:
            break
    words = tuple((at / "cmdline").read_text(errors="replace").rstrip("\0").split("\0"))
    if words != ("",):  # empty if the process has ended and its parent has not waited for it yet
        _words[pid] = words
    _, _, anonymous = (at / "status").read_text().partition("RssAnon:")
    size = int(anonymous.split()[0]) * 1024 if anonymous else 0
    return Sample(parent, _words.get(pid, ()), own, ended, size), children


def bytes_below(paths: Iterable[Path]) -> int:
    """Return the bytes that files and folders occupy on disk (allocated blocks)."""
    total = 0
    for top in paths:
        for path in [top, *top.rglob("*")] if top.is_dir() else [top]:
            with suppress(FileNotFoundError):
                total += path.lstat().st_blocks * 512
    return total
