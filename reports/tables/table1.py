"""Table 1 of the paper for a run: counts, shares and intervals, the paper's way and by outcome (strict)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from firstflight.errors import UsageError
from reports import question
from reports.numbers import bootstrap
from schemas import sql
from store import Store


@dataclass(frozen=True)
class Row:
    """One CDN. Shares are fractions from 0 to 1, None if nothing was counted; intervals are (low, high)."""

    cdn: str
    domains: int  # most distinct names counted in one repetition at one vantage point
    iack_share_max: float | None
    iack_share_max_interval: bootstrap.Interval | None
    variation: float | None
    variation_interval: bootstrap.Interval | None
    instant: int  # probes; instant / counted is the highest share
    counted: int
    strict_domains: int
    strict_iack_share_max: float | None
    strict_iack_share_max_interval: bootstrap.Interval | None
    strict_variation: float | None
    strict_variation_interval: bootstrap.Interval | None
    probes: int  # of all vantage points and repetitions
    iack: int
    coalesced: int
    sh_first: int
    excluded: int  # probes with any other outcome


@dataclass(frozen=True)
class Table:
    """Table 1 of a run, and the numbers of vantage points and repetitions it covers."""

    run: str
    vantages: int
    repetitions: int
    resamples: int
    seed: int
    rows: list[Row]
    shares_sql: str  # the query for counts and shares
    names_sql: str  # the query for the patterns that intervals are computed from

    def as_dicts(self) -> list[dict[str, Any]]:
        """Return one dict per CDN, with the run as the first key."""
        return [{"run": self.run, **asdict(row)} for row in self.rows]


def collect(
    store: Store,
    run: str | None = None,
    *,
    resamples: int = bootstrap.RESAMPLES,
    seed: int = bootstrap.SEED,
) -> Table:
    """Collect Table 1 of `run` (None: the newest in the store). UsageError if the store has no such probe."""
    run = run or newest(store)
    found = store.rows(
        f"SELECT uniqExact(vantage) AS vantages, uniqExact(repetition) AS repetitions "
        f"FROM {store.dialect.database}.quic_probe WHERE run = {{run:String}}",
        {"run": run},
    )[0]
    if not found["vantages"]:
        raise UsageError(
            f"the store in {store.location} has no probe of run {run}; `firstflight runs` lists runs"
        )
    names = question.put(store, sql.query("name_patterns", store.dialect), {"run": run})
    shares = question.put(store, sql.query("table1_report", store.dialect), {"run": run})
    rows = []
    for row in shares.rows:
        paper, strict = (
            bootstrap.intervals(bootstrap.patterns(names.rows, row["cdn"], by_outcome=way), resamples, seed)
            for way in (False, True)
        )
        rows.append(
            Row(
                iack_share_max_interval=paper.share_max,
                variation_interval=paper.variation,
                strict_iack_share_max_interval=strict.share_max,
                strict_variation_interval=strict.variation,
                **row,
            )
        )
    counted = found["vantages"], found["repetitions"]
    return Table(run, *counted, resamples, seed, rows, shares.sql, names.sql)


def newest(store: Store) -> str:
    """Return the newest run in the store. UsageError if the store has no probes."""
    found = store.rows(f"SELECT run FROM {store.dialect.database}.newest_run")
    if not found:
        raise UsageError(
            f"the store in {store.location} holds no probes: run a campaign or `firstflight load RUN`"
        )
    return str(found[0]["run"])
