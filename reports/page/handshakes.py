"""The section about completed handshakes: outcomes, stacks, certificates, servers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from reports.question import QueryAnswer, ask, run_rendered
from schemas import sql
from store import Store

MOST = 60
"""The maximum number of rows in a table on the page."""
# Values of the named queries' parameters that select everything.
_ALL = {"vantage": "", "cdn": "", "since": "1970-01-01", "until": "2149-06-06"}


@dataclass(frozen=True)
class Handshakes:
    """The answers of the section's queries; all but the first are named queries (docs/queries.md)."""

    outcomes: QueryAnswer
    stages: QueryAnswer
    ciphers: QueryAnswer
    stacks: QueryAnswer
    parameters: QueryAnswer
    certificates: QueryAnswer
    chain_sizes: QueryAnswer
    amplification: QueryAnswer
    keys: QueryAnswer
    servers: QueryAnswer
    locations: QueryAnswer


QUERIES: Mapping[str, str] = {
    "stages": "handshake_stages",
    "ciphers": "handshake_ciphers",
    "stacks": "handshake_stacks",
    "parameters": "handshake_parameters",
    "certificates": "handshake_certificates",
    "chain_sizes": "handshake_chain_sizes",
    "amplification": "handshake_amplification",
    "keys": "handshake_keys",
    "servers": "handshake_servers",
    "locations": "edge_locations",
}
"""Answer of Handshakes -> the named query."""


def collect(store: Store, run: str) -> Handshakes | None:
    """Collect the section about `run`; `None` if the run has no handshakes."""
    outcomes = ask(store, "handshake_outcomes", run=run)
    if not outcomes.rows:
        return None
    values: dict[str, str | int] = {"run": run, "limit": MOST, **_ALL}
    statements = {
        answer: run_rendered(store, sql.query(name, store.dialect), values)
        for answer, name in QUERIES.items()
    }
    return Handshakes(outcomes=outcomes, **statements)
