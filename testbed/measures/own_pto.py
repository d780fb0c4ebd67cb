"""How much an instant ACK shortens a client's first PTO, by the client's log (paper 000, Figure 16)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from reports.tables.columns import Column
from testbed.experiment.experiment import Experiment
from testbed.experiment.published import range_of
from testbed.measures import own_log, trend
from testbed.measures.gain import expected_of
from testbed.measures.own_log import Logged
from testbed.measures.page import Check, Page, between, number, page
from testbed.trials.cell_rows import difference
from testbed.trials.trial_row import Row


@dataclass(frozen=True)
class OwnPto:
    """A pair of cells. Times in ms, medians over logs that could be read; null without.

    `pto_gain_ms`: first probe timeout with WFC (wait for certificate) minus that with instant ACK, by the
    logs; `rfc_gain_ms`: the same by the packets. `verdict` is about the first, and so is the published range,
    `published_low_ms` to `published_high_ms`.
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


def pairs(experiment: Experiment, folder: Path, rows: Sequence[Row]) -> list[OwnPto]:
    """Return a line for each pair of cells with both answers. InputError as own_log.clients."""
    found: dict[tuple[str, str, float], dict[str, Logged]] = {}
    for one in own_log.clients(experiment, folder, rows):
        found.setdefault((one.client, one.server, one.rtt_ms), {})[one.answering] = one
    return [of_pair(experiment, both["wfc"], both["iack"]) for both in found.values() if len(both) == 2]


def summary(experiment: Experiment, found: Sequence[OwnPto]) -> Page:
    """Return the summary of pairs."""
    here = [one for one in found if one.done]
    columns = [
        Column("client\n", [one.client for one in here], right=False),
        Column("version\n", [one.version or "-" for one in here], right=False),
        Column("RTT\nms", [f"{one.rtt_ms:g}" for one in here]),
        Column("first PTO\nWFC", [number(one.wfc_pto_ms, 1) for one in here]),
        Column("\nIACK", [number(one.iack_pto_ms, 1) for one in here]),
        Column("gain\nlog", [number(one.pto_gain_ms, 1) for one in here]),
        Column("\npackets", [number(one.rfc_gain_ms, 1) for one in here]),
        Column("\npublished", [between(one.published_low_ms, one.published_high_ms) for one in here]),
        Column("logs\nWFC", [str(one.wfc_logs) for one in here]),
        Column("\nIACK", [str(one.iack_logs) for one in here]),
    ]
    legend = (
        "Medians in ms. First PTO: smoothed RTT and four variations, 1 ms at least, in the log's first\n"
        "entry with a sample. Gain: WFC (wait for certificate) minus IACK (instant ACK); by the log, and\n"
        "by the packets, as RFC 9002 has it.\n"
    )
    checks = [
        Check(
            f"{one.client} at {one.rtt_ms:g} ms",
            one.expected or "",
            f"{number(one.pto_gain_ms, 1)} ms",
            one.verdict == "met",
            one.found,
        )
        for one in here
        if one.verdict is not None
    ]
    checks += trend.checks(
        experiment, [trend.Gained(one.client, one.server, one.rtt_ms, one.pto_gain_ms) for one in here]
    )
    missing = sorted({one.client for one in found} - {one.client for one in here})
    further = [f"{one.client} at {one.rtt_ms:g} ms: {one.damaged}." for one in here if one.damaged]
    of = len({one.client for one in found})
    return page(experiment, columns, legend, checks, missing, of, further=further)


def of_pair(experiment: Experiment, wfc: Logged, iack: Logged) -> OwnPto:
    """Return the line for two cells that differ only in the answer."""
    gain = difference(wfc.pto_ms, iack.pto_ms)
    rfc_gain = difference(wfc.rfc_pto_ms, iack.rfc_pto_ms)
    # By RFC 9002 it is three times the difference of the first samples.
    g_ms = None if rfc_gain is None else rfc_gain / 3
    accepted, reason = expected_of(experiment, wfc.client, wfc.server, wfc.rtt_ms)
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
        damaged="; ".join(one.damaged for one in (wfc, iack) if one.damaged) or None,
    )
