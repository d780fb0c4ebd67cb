"""Table 1 of the paper for a run: counts, shares and intervals, the paper's way and by outcome (strict)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from firstflight.errors import UsageError
from reports import published_values, question
from reports.numbers import bootstrap
from schemas import sql
from store import Store

PUBLISHED = ("domains", "iack_share_max", "variation")
"""Columns of the paper's Table 1 (reports/published/imc2024.csv)."""


@dataclass(frozen=True)
class Table1Cdn:
    """A CDN. Shares are fractions from 0 to 1, `None` if nothing was counted; intervals are (low, high)."""

    cdn: str
    domains: int  # the largest count of distinct names, over repetitions and vantage points
    iack_share_max: float | None
    iack_share_max_interval: bootstrap.Interval | None
    variation: float | None
    variation_interval: bootstrap.Interval | None
    variation_one_vantage: float | None  # the largest over vantage points of a variation at only one
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
class Table1:
    """Table 1 for a run, and the numbers of vantage points and repetitions it covers."""

    run: str
    vantages: int
    repetitions: int
    resamples: int
    seed: int
    rows: list[Table1Cdn]
    shares_sql: str  # the query for counts and shares
    names_sql: str  # the query for the patterns that intervals are computed from

    def as_dicts(self) -> list[dict[str, Any]]:
        """Return one dict per CDN, with the run as the first key, and published_* unless they are hidden."""
        published = {name: published_values.imc2024("table1", name) for name in PUBLISHED}
        shown = published if published_values.are_shown() else {}
        return [
            {
                "run": self.run,
                **asdict(row),
                **{f"published_{name}": values.get(row.cdn) for name, values in shown.items()},
            }
            for row in self.rows
        ]


def collect(
    store: Store,
    run: str,
    *,
    resamples: int = bootstrap.RESAMPLES,
    seed: int = bootstrap.SEED,
) -> Table1:
    """Collect Table 1 of the run with the id `run`. UsageError if the store has none of its probes."""
    found = store.rows(
        f"SELECT uniqExact(vantage) AS vantages, uniqExact(repetition) AS repetitions "
        f"FROM {store.dialect.database}.quic_probe WHERE run = {{run:String}}",
        {"run": run},
    )[0]
    if not found["vantages"]:
        raise UsageError(
            f"the store in {store.location} has no probe of run {run}; `firstflight runs` lists runs"
        )
    names = question.run_rendered(store, sql.query("name_patterns", store.dialect), {"run": run})
    shares = question.run_rendered(store, sql.query("table1_report", store.dialect), {"run": run})
    rows = []
    for row in shares.rows:
        paper, strict = (
            bootstrap.intervals(bootstrap.patterns(names.rows, row["cdn"], by_outcome=way), resamples, seed)
            for way in (False, True)
        )
        rows.append(
            Table1Cdn(
                iack_share_max_interval=paper.share_max,
                variation_interval=paper.variation,
                strict_iack_share_max_interval=strict.share_max,
                strict_variation_interval=strict.variation,
                **row,
            )
        )
    counted = found["vantages"], found["repetitions"]
    return Table1(run, *counted, resamples, seed, rows, shares.sql, names.sql)
