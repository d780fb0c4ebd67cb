"""The paper's guidelines for instant ACKs (IMC 2024, Table 2) for each measured CDN and vantage point.

A probe does not see whether a certificate fits into three times the ClientHello's bytes, so both are given.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from reports.figures.first_pto import Place

Answer = Literal["IACK", "WFC"]  # instant ACK; wait for certificate


@dataclass(frozen=True)
class Advice:
    """What to do if the certificate fits; if it does not, an instant ACK is better in every case."""

    no_loss: Answer | None
    """None: how long the certificate takes is not known."""
    server_flight_lost: Answer = "WFC"
    client_flight_lost: Answer = "IACK"
    beyond_limit: Answer = "IACK"


@dataclass(frozen=True)
class Row:
    """A CDN at a vantage point, or one that sent no instant ACK anywhere (`place` is None)."""

    cdn: str
    place: Place | None
    advice: Advice


def rows(places: Sequence[Place], cdns: Iterable[str]) -> list[Row]:
    """A row per place, and one for each of `cdns` without any, in the order of `cdns`."""
    found = []
    for cdn in cdns:
        mine = [place for place in places if place.cdn == cdn]
        found += [Row(cdn, place, Advice(_no_loss(place))) for place in mine]
        if not mine:
            found.append(Row(cdn, None, Advice(None)))
    return found


def _no_loss(place: Place) -> Answer:
    """An instant ACK as long as delta stays below 3 RTT; decided by most probes."""
    return "WFC" if 2 * place.spurious_paper > place.probes else "IACK"
