"""How much an instant ACK shortens a client's first PTO, by the client's log (paper 000, Figure 16)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from reports.numbers.compared import ComparisonPanel, ComparisonSeries, series
from reports.tables.columns import PrintedColumn
from testbed.experiment.expected import GainExperiment
from testbed.experiment.published import range_of
from testbed.measures import Measure, Results, rtt_updates
from testbed.measures.gains import trend
from testbed.measures.rtt_updates import Logged
from testbed.summary import Check, SummaryPage, number, page, range_text
from testbed.trials.cell_rows import difference
from testbed.trials.trial_row import TrialRow


class PtoLogged(GainExperiment):
    """The gain of instant ACK in a client's first PTO, by the client's own log (paper 000, Figure 16)."""


@dataclass(frozen=True)
class OwnPto:
    """A pair of cells. Times in ms, medians over readable logs; null without any.

    `pto_gain_ms`: first probe timeout with WFC (wait for certificate) minus the one with instant ACK, from
    the logs; `rfc_gain_ms`: the same from the packets. `verdict` and the published range, `published_low_ms`
    to `published_high_ms`, apply to `pto_gain_ms`.
    """

    client: str
    version: str | None
    server: str
    rtt_ms: float
    trials: int
    done: int
    wfc_logs: int
    iack_logs: int
    wfc_pto_ms: float | None
    iack_pto_ms: float | None
    pto_gain_ms: float | None
    rfc_gain_ms: float | None
    published_low_ms: float | None
    published_high_ms: float | None
    verdict: str | None
    expected: str | None
    found: str | None
    damaged: str | None

    def as_dict(self) -> dict[str, Any]:
        """Return the columns as a dictionary."""
        return asdict(self)


def pairs(experiment: PtoLogged, folder: Path, rows: Sequence[TrialRow]) -> list[OwnPto]:
    """Return a line for each pair of cells with both answers. InputError as in rtt_updates.clients."""
    pairs: dict[tuple[str, str, float], dict[str, Logged]] = {}
    for line in rtt_updates.clients(experiment, folder, rows):
        pairs.setdefault((line.client, line.server, line.rtt_ms), {})[line.answering] = line
    return [
        of_pair(experiment, answers["wfc"], answers["iack"])
        for answers in pairs.values()
        if len(answers) == 2
    ]


def summary(experiment: PtoLogged, lines: Sequence[OwnPto]) -> SummaryPage:
    """Return the summary of pairs."""
    completed = [line for line in lines if line.done]
    columns = [
        PrintedColumn("client\n", [line.client for line in completed], right=False),
        PrintedColumn("version\n", [line.version or "-" for line in completed], right=False),
        PrintedColumn("RTT\nms", [f"{line.rtt_ms:g}" for line in completed]),
        PrintedColumn("first PTO\nWFC", [number(line.wfc_pto_ms, 1) for line in completed]),
        PrintedColumn("\nIACK", [number(line.iack_pto_ms, 1) for line in completed]),
        PrintedColumn("gain\nlog", [number(line.pto_gain_ms, 1) for line in completed]),
        PrintedColumn("\npackets", [number(line.rfc_gain_ms, 1) for line in completed]),
        PrintedColumn(
            "\npublished", [range_text(line.published_low_ms, line.published_high_ms) for line in completed]
        ),
        PrintedColumn("logs\nWFC", [str(line.wfc_logs) for line in completed]),
        PrintedColumn("\nIACK", [str(line.iack_logs) for line in completed]),
    ]
    legend = (
        "Medians in ms. First PTO: smoothed RTT plus four variations (at least 1 ms), in the log's first\n"
        "entry with a sample. Gain: WFC (wait for certificate) minus IACK (instant ACK); from the log, and\n"
        "from the packets by RFC 9002.\n"
    )
    checks = [
        Check(
            f"{line.client} at {line.rtt_ms:g} ms",
            line.expected or "",
            f"{number(line.pto_gain_ms, 1)} ms",
            line.verdict == "met",
            line.found,
        )
        for line in completed
        if line.verdict is not None
    ]
    checks += trend.checks(
        experiment,
        [trend.Gained(line.client, line.server, line.rtt_ms, line.pto_gain_ms) for line in completed],
    )
    missing = sorted({line.client for line in lines} - {line.client for line in completed})
    further = [f"{line.client} at {line.rtt_ms:g} ms: {line.damaged}." for line in completed if line.damaged]
    of = len({line.client for line in lines})
    return page(experiment, columns, legend, checks, missing, of, further=further)


def of_pair(experiment: PtoLogged, wfc: Logged, iack: Logged) -> OwnPto:
    """Return the line for two cells that differ only in the answer."""
    gain = difference(wfc.pto_ms, iack.pto_ms)
    rfc_gain = difference(wfc.rfc_pto_ms, iack.rfc_pto_ms)
    # By RFC 9002, the gain is three times the difference of the first samples.
    g_ms = None if rfc_gain is None else rfc_gain / 3
    accepted, reason = experiment.expected(wfc.client, wfc.server, wfc.rtt_ms)
    low_ms, high_ms = range_of(experiment.gained, wfc.client, wfc.server, wfc.rtt_ms)
    return OwnPto(
        client=wfc.client,
        version=wfc.version,
        server=wfc.server,
        rtt_ms=wfc.rtt_ms,
        trials=wfc.trials + iack.trials,
        done=wfc.done + iack.done,
        wfc_logs=wfc.logs,
        iack_logs=iack.logs,
        wfc_pto_ms=wfc.pto_ms,
        iack_pto_ms=iack.pto_ms,
        pto_gain_ms=gain,
        rfc_gain_ms=rfc_gain,
        published_low_ms=low_ms,
        published_high_ms=high_ms,
        verdict=accepted.verdict(gain, g_ms) if accepted else None,
        expected=accepted.why if accepted else None,
        found=reason,
        damaged="; ".join(logged.damaged for logged in (wfc, iack) if logged.damaged) or None,
    )


def panels(lines: Sequence[OwnPto]) -> list[ComparisonPanel]:
    """Return the figure: the gain by the logs and by the packets, over the RTT."""
    figure = []
    for title, name in (("by the logs", "pto_gain_ms"), ("by the packets", "rfc_gain_ms")):
        curves: list[ComparisonSeries] = []
        for client in sorted({line.client for line in lines}):
            group = [line for line in lines if line.client == client]
            curves += series(client, [(line.rtt_ms, getattr(line, name)) for line in group])
        figure.append(ComparisonPanel(title, "Gain in first PTO [ms]", tuple(curves), "RTT [ms]"))
    return figure


def results(experiment: PtoLogged, folder: Path, rows: Sequence[TrialRow]) -> Results:
    """Return a line for each pair of cells, read from logs and captures in `folder`."""
    lines = pairs(experiment, folder, rows)
    return Results(lines, lambda: summary(experiment, lines), lambda: panels(lines))


MEASURE = Measure(PtoLogged, results)
