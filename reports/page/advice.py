"""The paper's guidelines for instant ACKs (IMC 2024, Table 2) for each measured CDN and vantage point.

A probe cannot see whether a certificate fits into three times the ClientHello's bytes, so both cases are
given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from reports.figures.first_pto import Point

AnswerMode = Literal["IACK", "WFC"]  # instant ACK; wait for certificate
Why = Literal["waits everywhere", "none counts", "no answer"]


@dataclass(frozen=True)
class Advice:
    """Advice for a certificate within the limit; beyond the limit, an instant ACK is always better."""

    no_loss: AnswerMode | None
    """`None`: the delay of the certificate is unknown."""
    server_flight_lost: AnswerMode | None = "WFC"
    client_flight_lost: AnswerMode | None = "IACK"
    beyond_limit: AnswerMode | None = "IACK"


@dataclass(frozen=True)
class AdviceRow:
    """A CDN at a vantage point, or a CDN without a point and the reason."""

    cdn: str
    point: Point | None
    advice: Advice
    why: Why | None = None


def rows(points: Sequence[Point], outcomes: Iterable[Mapping[str, Any]]) -> list[AdviceRow]:
    """Return a row per point, and one per CDN of `outcomes` without points, in the order of `outcomes`."""
    table_rows = []
    for outcome in outcomes:
        cdn = str(outcome["cdn"])
        cdn_points = [point for point in points if point.cdn == cdn]
        table_rows += [AdviceRow(cdn, point, Advice(_no_loss(point))) for point in cdn_points]
        if not cdn_points:
            table_rows.append(_without_point(cdn, outcome))
    return table_rows


def _without_point(cdn: str, outcome: Mapping[str, Any]) -> AdviceRow:
    if outcome["iack"]:
        return AdviceRow(cdn, None, Advice(None), "none counts")
    if outcome["coalesced"] or outcome["sh_first"]:
        return AdviceRow(cdn, None, Advice(None), "waits everywhere")
    return AdviceRow(cdn, None, Advice(None, None, None, None), "no answer")


def _no_loss(point: Point) -> AnswerMode:
    """Advise an instant ACK if delta is below 3 RTT for at least half of the probes."""
    return "WFC" if 2 * point.spurious_paper > point.probes else "IACK"
