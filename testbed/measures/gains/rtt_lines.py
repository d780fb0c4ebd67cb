"""Straight lines through times over the RTT, and the crossing of two lines (paper 000, Figure 12)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import linear_regression

from testbed.choices import Answering
from testbed.measures.gains.gain import Fitted, Gain, Gains

_NAMES: dict[Answering, str] = {"wfc": "WFC", "iack": "IACK"}


@dataclass(frozen=True)
class RttLine:
    """A line: `at_zero_ms` + `per_rtt` x RTT."""

    at_zero_ms: float
    per_rtt: float

    def __str__(self) -> str:
        return f"{self.at_zero_ms:.0f} + {self.per_rtt:.2f} RTT"

    def crosses_at_ms(self, other: RttLine) -> float | None:
        """Return the RTT at which two lines have the same time; `None` if they are parallel."""
        if self.per_rtt == other.per_rtt:
            return None
        return (other.at_zero_ms - self.at_zero_ms) / (self.per_rtt - other.per_rtt)


def fit_line(points: Sequence[tuple[float, float]]) -> RttLine | None:
    """Return the least-squares line through times over RTTs; `None` if all points have the same RTT."""
    if len({rtt_ms for rtt_ms, _ in points}) < 2:
        return None
    fitted = linear_regression([rtt_ms for rtt_ms, _ in points], [time_ms for _, time_ms in points])
    return RttLine(fitted.intercept, fitted.slope)


def sentences(experiment: Gains, gains: Sequence[Gain]) -> list[str]:
    """Return, for each server, our lines, the published lines, and where they cross."""
    wfc, iack = (_published(experiment, answering) for answering in _NAMES)
    if wfc is None or iack is None:
        return []
    texts = []
    for server in dict.fromkeys(gain.server for gain in gains):
        pair = [
            _our_line(fitted, [gain for gain in gains if gain.server == server]) for fitted in (wfc, iack)
        ]
        if any(line is None for line, _ in pair):
            continue
        (waiting, clients), (instant, _) = pair
        assert waiting is not None and instant is not None
        published_lines = [RttLine(fitted.at_zero_ms, fitted.per_rtt) for fitted in (wfc, iack)]
        is_published = not wfc.servers or server in wfc.servers
        texts.append(
            f"Server {server}, lines of least squares through the medians of {clients} clients at "
            f"{', '.join(f'{rtt_ms:g}' for rtt_ms in wfc.rtt_ms)} ms: "
            f"WFC {waiting}{_published_text(str(published_lines[0]), is_published)}, "
            f"IACK {instant}{_published_text(str(published_lines[1]), is_published)}; "
            f"they cross at {_crossing(waiting, instant)}"
            f"{_published_text(_crossing(*published_lines), is_published)}"
            f"{_by_client(wfc, iack, [gain for gain in gains if gain.server == server])}."
        )
    return texts


def _by_client(wfc: Fitted, iack: Fitted, gains: Sequence[Gain]) -> str:
    """Return where the lines of each client cross, if there are several."""
    clients = sorted({gain.client for gain in gains})
    crossings = []
    for client in clients:
        group = [gain for gain in gains if gain.client == client]
        waiting, instant = (_our_line(fitted, group)[0] for fitted in (wfc, iack))
        if waiting is not None and instant is not None:
            crossings.append(f"{client} {_crossing(waiting, instant)}")
    return f", those of each client at {', '.join(crossings)}" if len(crossings) > 1 else ""


def _published(experiment: Gains, answering: Answering) -> Fitted | None:
    return next((fitted for fitted in experiment.fitted if fitted.answering == answering), None)


def _our_line(published: Fitted, gains: Sequence[Gain]) -> tuple[RttLine | None, int]:
    """Return our line at the RTTs of the published one, and its number of clients."""
    name = f"{published.answering}_first_stream_ms"
    points = [
        (gain.client, (gain.rtt_ms, getattr(gain, name)))
        for gain in gains
        if gain.rtt_ms in published.rtt_ms and getattr(gain, name) is not None
    ]
    return fit_line([point for _, point in points]), len({client for client, _ in points})


def _published_text(text: str, shown: bool) -> str:
    return f" (published {text})" if shown else ""


def _crossing(wfc: RttLine, iack: RttLine) -> str:
    at_ms = wfc.crosses_at_ms(iack)
    return "no RTT" if at_ms is None or at_ms <= 0 else f"{at_ms:.0f} ms"
