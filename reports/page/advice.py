"""The paper's guidelines for instant ACKs (IMC 2024, Table 2) for each measured CDN and vantage point.

A probe cannot see whether a certificate fits into three times the ClientHello's bytes, so both cases are
given.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from reports.figures.first_pto import Point

Answer = Literal["IACK", "WFC"]  # instant ACK; wait for certificate


@dataclass(frozen=True)
class Advice:
    """Advice for a certificate that fits; for one that does not, an instant ACK is always better."""

    no_loss: Answer | None
    """None: the delay of the certificate is unknown."""
    server_flight_lost: Answer = "WFC"
    client_flight_lost: Answer = "IACK"
    beyond_limit: Answer = "IACK"


@dataclass(frozen=True)
class Row:
    """A CDN at a vantage point, or one that sent no instant ACK anywhere (`point` is None)."""

    cdn: str
    point: Point | None
    advice: Advice


def rows(points: Sequence[Point], cdns: Iterable[str]) -> list[Row]:
    """Return a row per point, and one for each of `cdns` without points, in the order of `cdns`."""
    found = []
    for cdn in cdns:
        mine = [point for point in points if point.cdn == cdn]
        found += [Row(cdn, point, Advice(_no_loss(point))) for point in mine]
        if not mine:
            found.append(Row(cdn, None, Advice(None)))
    return found


def _no_loss(point: Point) -> Answer:
    """Advise an instant ACK if delta is below 3 RTT for at least half of the probes."""
    return "WFC" if 2 * point.spurious_paper > point.probes else "IACK"
