"""The section about completed handshakes: how they ended, who runs what, certificates, edge locations."""

from __future__ import annotations

from dataclasses import dataclass

from reports.question import Answer, ask, put
from schemas import sql
from store import Store

MOST = 60
"""The maximum number of rows of a table on the page."""
# Values of the named queries' parameters that leave nothing out.
_ALL = {"vantage": "", "cdn": "", "since": "1970-01-01", "until": "2149-06-06"}


@dataclass(frozen=True)
class Handshakes:
    """The answers of the section's queries; the last three are named queries (docs/queries.md)."""

    outcomes: Answer
    stacks: Answer
    certificates: Answer
    locations: Answer


def collect(store: Store, run: str) -> Handshakes | None:
    """Collect the section about `run`; None if the run has no handshakes."""
    outcomes = ask(store, "handshake_outcomes", run=run)
    if not outcomes.rows:
        return None
    stacks, certificates, locations = (
        put(store, sql.query(name, store.dialect), {"run": run, "limit": MOST, **_ALL})
        for name in ("handshake_stacks", "handshake_certificates", "edge_locations")
    )
    return Handshakes(outcomes, stacks, certificates, locations)
