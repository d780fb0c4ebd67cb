"""Compare cells of the testbed in simulated time and in real time: `python -m bench real_time`.

Runs each cell once in a guest and once by the host's clock over the lab's link
(testbed/trials/real_time.py), with the same programs, certificate and configuration. In simulated time,
computing takes no time. Real time adds the computing of the stacks and the delays of this machine; the lab's
link reports how late it released each packet. The comparison fails if a trial fails, not if the machine is
slow.

Uncounted trials before the first one show which datagrams form a client's second flight. In real time, a
client may divide its flights differently in a later trial. That trial then loses other datagrams, so it is
not a trial of the cell and does not count. `--result FILE` writes the compared cells to FILE.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import process, results
from firstflight.errors import FirstflightError
from testbed import experiment_files
from testbed.experiment import experiment
from testbed.experiment.cell import Cell
from testbed.guest import kernel
from testbed.trials import block as blocks
from testbed.trials import real_time
from testbed.trials import versions as stack_versions
from testbed.trials.block import TrialBlock
from testbed.trials.captures import block_files, captured_packets, second_flight
from testbed.trials.estimate import LENGTH
from testbed.trials.network import wire
from testbed.trials.trial_row import TrialRow

SAMPLE = {
    "iack-ttfb": (
        "quiche-quiche-wfc-9ms",
        "quiche-quiche-iack-9ms",
        "quic-go-quic-go-iack-9ms",
        "s2n-quic-quinn-iack-9ms",
        "aioquic-aioquic-iack-9ms",
    ),
    "iack-loss-server": ("quinn-quic-go-wfc-9ms", "quinn-quic-go-iack-9ms"),
    "iack-loss-client": ("quinn-quinn-wfc-9ms", "quinn-quinn-iack-9ms"),
}
"""Cells by experiment: five without loss, two that lose the server's flight, two that lose the client's."""
RESULT = "real-time"
REPETITIONS = 10
OTHER_LOSS = "other_loss"
"""Outcome for a trial in real time that did not lose the datagrams that its cell specifies."""


@dataclass(frozen=True)
class Times:
    """Times to first byte in a cell's trials in ms, the number of trials, and the number of failed trials."""

    first_stream_ms: tuple[float, ...]
    trials: int
    failed: int

    @property
    def median_ms(self) -> float | None:
        """Return the median; `None` without a time."""
        return statistics.median(self.first_stream_ms) if self.first_stream_ms else None

    def __str__(self) -> str:
        """Return the median, minimum and maximum, and the number of trials that do not count."""
        if self.median_ms is None:
            return f"none of {self.trials} trials counts"
        least, most = min(self.first_stream_ms), max(self.first_stream_ms)
        missing = self.trials - len(self.first_stream_ms)
        note = f", without {missing} of {self.trials}" if missing else ""
        return f"{self.median_ms:.2f} ({least:.2f} to {most:.2f}{note})"


@dataclass(frozen=True)
class ComparedCell:
    """A cell in simulated and in real time, and how late the link released packets in us: p99 and maximum.

    `versions`: the versions of client and server.
    """

    name: str
    simulated: Times
    real: Times
    late_p99_us: float | None
    late_max_us: float | None
    versions: frozenset[stack_versions.Version] = frozenset()

    @property
    def more_ms(self) -> float | None:
        """Return the median in real time minus the median in simulated time; `None` if either is missing."""
        if self.simulated.median_ms is None or self.real.median_ms is None:
            return None
        return self.real.median_ms - self.simulated.median_ms

    def __str__(self) -> str:
        """Return the line to print."""
        more = "unknown" if self.more_ms is None else f"{self.more_ms:+.2f}"
        late = "unknown"
        if self.late_p99_us is not None and self.late_max_us is not None:
            late = f"{self.late_p99_us:.0f}, at most {self.late_max_us:.0f}"
        return (
            f"{self.name}: simulated {self.simulated}; real {self.real}; real minus simulated {more}; "
            f"link late {late} us"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare and print; return 1 if a trial failed."""
    parser = argparse.ArgumentParser(prog="bench real_time")
    parser.add_argument("--repetitions", type=int, default=REPETITIONS, help=f"of each cell ({REPETITIONS})")
    parser.add_argument(
        "--experiment", help="compare cells of this experiment (with --cells), not the sample"
    )
    parser.add_argument("--cells", default="", help="parts of its cells' names, separated by commas")
    results.add_option(parser)
    options = parser.parse_args(arguments)
    if not 1 <= options.repetitions <= LENGTH:
        parser.error(f"--repetitions is from 1 to {LENGTH}: one guest does them")
    if options.cells and not options.experiment:
        parser.error("--cells needs --experiment")
    file = results.begin(parser, options.result, RESULT, arguments)
    try:
        return _compare(list(_chosen(options.experiment, options.cells, options.repetitions)), file)
    except FirstflightError as error:
        print(f"bench: {error}", file=sys.stderr)
        return error.exit_status


def _compare(chosen: Sequence[TrialBlock], file: results.ResultFile) -> int:
    """Compare blocks, print and write the result; return 1 if a trial failed.

    FirstflightError if they cannot run here.
    """
    runnable = [block for block in chosen if wire.why_not(block.cell) is None]
    for block in runnable:
        real_time.check(block)
    blocks.check(runnable, 1)
    print(
        f"time to first byte in ms: median (least to greatest) of {chosen[0].trials} repetitions; guests "
        f"{kernel.find().parent.name}; {process.load()}"
    )
    kept = True
    lines = []
    known: set[stack_versions.Version] = set()
    for block in chosen:
        if (why := wire.why_not(block.cell)) is not None:
            print(f"  {block.experiment}/{block.cell.name}: not compared: {why}", flush=True)
            continue
        found = compared(block)
        print(f"  {found}", flush=True)
        kept = kept and found.simulated.failed == found.real.failed == 0
        lines.append(result_line(block, found))
        known |= found.versions
    print(f"  {process.load()} at the end")
    file.write(lines, _by_side(known))
    return int(not kept)


def result_line(block: TrialBlock, found: ComparedCell) -> results.Line:
    """Return the line of the result file for a cell. Times without a trial that counts are null."""
    figure = re.search(r"Figures? (\d+)", experiment_files.find(block.experiment).source)
    real_ms = found.real.first_stream_ms
    return {
        "experiment": block.experiment,
        "cell": block.cell.name,
        "figure": figure and figure[1],
        "client": block.cell.client,
        "server": block.cell.server,
        "answering": block.cell.answering,
        "rtt_ms": block.cell.rtt_ms,
        "simulated_ms": found.simulated.median_ms,
        "real_ms": found.real.median_ms,
        "real_low_ms": min(real_ms, default=None),
        "real_high_ms": max(real_ms, default=None),
        "more_ms": found.more_ms,
        "late_p99_us": found.late_p99_us,
    }


def _by_side(known: Iterable[stack_versions.Version]) -> results.Versions:
    found: dict[str, dict[str, list[str]]] = {"client": {}, "server": {}}
    for stack, side, version in sorted(known):
        found[side].setdefault(stack, []).append(version)
    return found


def _chosen(name: str | None, cells: str, repetitions: int) -> Iterator[TrialBlock]:
    """Yield the blocks to compare: the sample, or cells of experiment `name`."""
    wanted = {name: tuple(text for text in cells.split(",") if text)} if name else SAMPLE
    for experiment_name, patterns in wanted.items():
        for cell in experiment.chosen(experiment_files.find(experiment_name), patterns):
            yield TrialBlock(experiment_name, cell, 1, repetitions)


def compared(block: TrialBlock) -> ComparedCell:
    """Run a block in simulated and in real time; return the comparison and delete all files."""
    with tempfile.TemporaryDirectory(prefix="firstflight-bench-") as name:
        simulated = blocks.run(block, Path(name) / "simulated")
        place = Path(name) / "real"
        place.mkdir()
        found = real_time.run(block, place)
        rows = [as_lost(block.cell, place, row) for row in found.rows]
    late_us = sorted(late / 1000 for late in found.late_ns)
    return ComparedCell(
        f"{block.experiment}/{block.cell.name}",
        times(simulated),
        times(rows),
        late_us[len(late_us) * 99 // 100] if late_us else None,
        late_us[-1] if late_us else None,
        frozenset(stack_versions.of(simulated)),
    )


def as_lost(cell: Cell, folder: Path, row: TrialRow) -> TrialRow:
    """Return the row, with outcome OTHER_LOSS if a trial in real time lost other datagrams than it should."""
    if not cell.drop_second_flight or row["outcome"] != "done":
        return row
    files = {"capture_file": block_files.CAPTURE, "keys_file": block_files.KEYS}
    (packets,) = captured_packets.connections(folder, [{**row, **files}])
    own = sorted({*cell.drop_to_server, *second_flight.indices(packets)})
    if own == list(row["drop_to_server"]):
        return row
    lost = ", ".join(map(str, row["drop_to_server"]))
    why = f"the client's datagrams {lost} were dropped, where its second flight was to make them "
    return {**row, "outcome": OTHER_LOSS, "detail": why + ", ".join(map(str, own))}


def times(rows: Sequence[TrialRow]) -> Times:
    """Return the times to first byte of the successful trials; print why others do not count."""
    others = [row for row in rows if row["outcome"] != "done"]
    for row in others:
        print(f"    repetition {row['repetition']}: {row['outcome']}: {row['detail']}", flush=True)
    done = [row["first_stream_us"] for row in rows if row["outcome"] == "done"]
    failed = sum(row["outcome"] != OTHER_LOSS for row in others)
    return Times(tuple(us / 1000 for us in done if us is not None), len(rows), failed)


if __name__ == "__main__":
    sys.exit(main())
