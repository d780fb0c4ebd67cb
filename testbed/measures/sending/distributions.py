"""Distributions of gaps and of packet trains as sent by the server (paper 001, Figures 2 to 6)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from testbed.trials import trial_row
from testbed.trials.captures import dissected
from testbed.trials.captures.block_files import SENT, TRIALS
from testbed.trials.network.path import SERVER_IP
from testbed.trials.trial_row import DissectedRow, TrialRow

STEP_MS = 0.01
"""Distance between the points of `gaps_up_to` (record kind pacing)."""
LONGEST_DRAWN = 40
"""Longest train in a figure, in packets."""


@dataclass(frozen=True)
class SendingDistribution:
    """The gaps and trains in a cell's trials together.

    `gaps`: percent of the gaps up to 0, 0.01, ... 2 ms. `trains`: percent of the packets by train length.
    """

    gaps: tuple[float, ...]
    trains: dict[int, float]

    def within(self, shortest: int, longest: int) -> float:
        """Return the percentage of packets in trains of these lengths."""
        return sum(share for length, share in self.trains.items() if shortest <= length <= longest)

    def gaps_drawn(self) -> list[tuple[float, float]]:
        """Return points (gap in ms, percent of the gaps up to it)."""
        return [(round(number * STEP_MS, 2), percent) for number, percent in enumerate(self.gaps)]

    def trains_drawn(self) -> list[tuple[float, float]]:
        """Return points (length, percent of the packets in trains up to it)."""
        shares = [self.trains.get(length, 0.0) for length in range(1, LONGEST_DRAWN + 1)]
        return [(float(length), percent) for length, percent in enumerate(accumulate(shares), start=1)]


def of_trials(folder: Path, rows: Sequence[TrialRow]) -> SendingDistribution | None:
    """Return the distribution over `rows`, the completed trials in a cell of the experiment in `folder`.

    `None` without trials, or if their captures were not kept.
    """
    files = sorted({(folder / row["capture_file"]).parent / SENT for row in rows if row["capture_file"]})
    repetitions = {row["repetition"] for row in rows}
    flows = [flow for file in files if file.is_file() for flow in _flows(file, repetitions)]
    packets = sum(flow["packets"] for flow in flows)
    gaps = [json.loads(flow["gaps_up_to"]) for flow in flows if flow["gaps_up_to"]]
    if not gaps:
        return None
    between = sum(flow["packets"] - 1 for flow in flows if flow["gaps_up_to"])
    trains: dict[int, float] = {}
    for flow in flows:
        for part in flow["train_lengths"].split(","):
            length, share = part.split(":")
            weight = 100 * float(share) * flow["packets"] / packets
            trains[int(length)] = trains.get(int(length), 0.0) + weight
    return SendingDistribution(
        tuple(100 * sum(counts) / between for counts in zip(*gaps, strict=True)), trains
    )


def _flows(file: Path, repetitions: set[int]) -> list[DissectedRow]:
    """Return the pacing rows of the trials in a block's capture, one for each."""
    trials = [
        trial
        for number, trial in trial_row.by_repetition(file.parent / TRIALS).items()
        if number in repetitions
    ]
    return [
        flow
        for flow in dissected.rows("pacing", str(file))
        if flow["src_ip"] == SERVER_IP
        and any(trial_row.is_of(flow["start_time_ns"], trial) for trial in trials)
    ]
