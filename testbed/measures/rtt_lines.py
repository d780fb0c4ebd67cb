"""Straight lines through times over the RTT, and the crossing of two lines (paper 000, Figure 12)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import linear_regression

from testbed.choices import Answering
from testbed.experiment.experiment import Experiment
from testbed.experiment.published import Fitted
from testbed.measures.gain import Gain

_NAMES: dict[Answering, str] = {"wfc": "WFC", "iack": "IACK"}


@dataclass(frozen=True)
class Straight:
    """A line: `at_zero_ms` + `per_rtt` x RTT."""

    at_zero_ms: float
    per_rtt: float

    def __str__(self) -> str:
        return f"{self.at_zero_ms:.0f} + {self.per_rtt:.2f} RTT"

    def crosses_at_ms(self, other: Straight) -> float | None:
        """Return the RTT at which two lines have the same time; None if they are parallel."""
        if self.per_rtt == other.per_rtt:
            return None
        return (other.at_zero_ms - self.at_zero_ms) / (self.per_rtt - other.per_rtt)


def through(points: Sequence[tuple[float, float]]) -> Straight | None:
    """Return the line of least squares through times over RTTs; None if all are at one RTT."""
    if len({rtt_ms for rtt_ms, _ in points}) < 2:
        return None
    found = linear_regression([rtt_ms for rtt_ms, _ in points], [time_ms for _, time_ms in points])
    return Straight(found.intercept, found.slope)


def sentences(experiment: Experiment, found: Sequence[Gain]) -> list[str]:
    """Return, for each server, our lines, the published lines, and where they cross."""
    wfc, iack = (_published(experiment, answering) for answering in _NAMES)
    if wfc is None or iack is None:
        return []
    made = []
    for server in dict.fromkeys(one.server for one in found):
        pair = [_ours(one, [gain for gain in found if gain.server == server]) for one in (wfc, iack)]
        if any(line is None for line, _ in pair):
            continue
        (waiting, clients), (instant, _) = pair
        assert waiting is not None and instant is not None
        theirs = [Straight(one.at_zero_ms, one.per_rtt) for one in (wfc, iack)]
        beside = not wfc.servers or server in wfc.servers
        made.append(
            f"Server {server}, lines of least squares through the medians of {clients} clients at "
            f"{', '.join(f'{rtt_ms:g}' for rtt_ms in wfc.rtt_ms)} ms: "
            f"WFC {waiting}{_beside(str(theirs[0]), beside)}, "
            f"IACK {instant}{_beside(str(theirs[1]), beside)}; "
            f"they cross at {_at(waiting, instant)}{_beside(_at(*theirs), beside)}"
            f"{_by_client(wfc, iack, [one for one in found if one.server == server])}."
        )
    return made


def _by_client(wfc: Fitted, iack: Fitted, found: Sequence[Gain]) -> str:
    """Return where the lines of each client cross, if there are several."""
    clients = sorted({one.client for one in found})
    made = []
    for client in clients:
        own = [one for one in found if one.client == client]
        waiting, instant = (_ours(one, own)[0] for one in (wfc, iack))
        if waiting is not None and instant is not None:
            made.append(f"{client} {_at(waiting, instant)}")
    return f", those of each client at {', '.join(made)}" if len(made) > 1 else ""


def _published(experiment: Experiment, answering: Answering) -> Fitted | None:
    return next((one for one in experiment.fitted if one.answering == answering), None)


def _ours(theirs: Fitted, found: Sequence[Gain]) -> tuple[Straight | None, int]:
    """Return our line of a server where the published one is, and of how many clients it is."""
    name = f"{theirs.answering}_first_stream_ms"
    points = [
        (one.client, (one.rtt_ms, getattr(one, name)))
        for one in found
        if one.rtt_ms in theirs.rtt_ms and getattr(one, name) is not None
    ]
    return through([point for _, point in points]), len({client for client, _ in points})


def _beside(text: str, shown: bool) -> str:
    return f" (published {text})" if shown else ""


def _at(wfc: Straight, iack: Straight) -> str:
    at_ms = wfc.crosses_at_ms(iack)
    return "no RTT" if at_ms is None or at_ms <= 0 else f"{at_ms:.0f} ms"
