"""Collects a report page's content, from the store only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from firstflight.errors import UsageError
from reports import chosen_run, published_values
from reports.chosen_run import Choice
from reports.figures import ack_delay, delay, first_pto, pto
from reports.page import advice, coverage, handshakes, provenance
from reports.question import QueryAnswer, ask, run_rendered
from reports.tables import table1
from schemas import sql
from store import Store

_PUBLISHED = {
    "table1": ("domains", "iack_share_max", "variation", "variation_one_vantage"),
    "delay": ("ack_to_sh_ms",),
    "ack_delay": ("coalesced_below_zero_share", "iack_below_zero_share"),
}

# Values of a named query's parameters that select the first IPv4 addresses of a run.
_EVERYTHING = {
    "vantage": "",
    "cdn": "",
    "since": "1970-01-01",
    "until": "2149-06-06",
    "all_addresses": "false",
    "by_vantage": "false",
}


@dataclass(frozen=True)
class Figure8Choice:
    """The vantage point and day of Figure 8; the day is UTC, YYYY-MM-DD."""

    vantage: str
    day: str


@dataclass(frozen=True)
class Content:
    """The content of the page about a run, in reading order. `None`: the run has no probes for that part."""

    provenance: provenance.RunProvenance
    run_answer: QueryAnswer
    coverage: coverage.Coverage
    coverage_answer: QueryAnswer
    table: table1.Table1 | None
    outcomes: QueryAnswer
    reasons: QueryAnswer
    figure8_choice: Figure8Choice | None
    figure8: delay.Delays | None
    figure14: delay.Delays
    padded_acks: QueryAnswer
    figure10: ack_delay.Differences
    figure2: pto.PtoCases
    figure4: first_pto.Points
    advice: list[advice.AdviceRow]
    handshakes: handshakes.Handshakes | None
    runs: QueryAnswer
    published: Mapping[str, Mapping[str, Mapping[str, float]]]
    """Values of the IMC 2024 paper by part, column and row; empty if they are hidden."""


def collect(store: Store, run: str, vantage: str | None = None, day: date | None = None) -> Content:
    """Collect the content about `run`; `vantage` and `day` choose Figure 8 (`None`: most instant CDNs).

    UsageError if the store does not have the run, or no answers for that vantage point and day.
    """
    (days,) = ask(store, "days", run=run).rows
    when = {"run": run, "first": days["first"], "last": days["last"]}
    covered, run_row = ask(store, "coverage", **when), ask(store, "run", run=run)
    if not covered.rows and not run_row.rows:
        raise UsageError(
            f"the store in {store.location} knows no run {run}; "
            "`firstflight sql 'SELECT DISTINCT run FROM quic_probe'` lists what it has"
        )
    known = provenance.read(run, run_row.rows)
    outcomes = ask(store, "outcomes", run=run)
    choice = _figure8_choice(ask(store, "figure8_choices", **when), vantage, day)
    cities = known.cities
    figure8 = None
    if choice is not None:
        title = f"{cities.get(choice.vantage, choice.vantage)}, {choice.day}"
        figure8 = delay.at_vantage(store, run, choice.vantage, choice.day, title)
    figure4 = first_pto.collect(store, when)
    near = choice.vantage if choice else None
    return Content(
        provenance=known,
        run_answer=run_row,
        coverage=coverage.compare(covered.rows, known.manifest, known.settings),
        coverage_answer=covered,
        table=table1.collect(store, run) if outcomes.rows else None,
        outcomes=outcomes,
        reasons=ask(store, "reasons", **when),
        figure8_choice=choice,
        figure8=figure8,
        figure14=delay.all_vantages(store, when, cities),
        padded_acks=run_rendered(store, sql.query("padded_acks", store.dialect), {"run": run, **_EVERYTHING}),
        figure10=ack_delay.collect(store, when),
        figure2=pto.cases(figure4, near, cities.get(near or "", near or "")),
        figure4=figure4,
        advice=advice.rows(figure4.points, outcomes.rows),
        handshakes=handshakes.collect(store, run),
        runs=ask(store, "runs"),
        published=published_values.parts(_PUBLISHED),
    )


def newest(store: Store) -> Choice | None:
    """Return a page's default run: the newest that sent probes, else the newest. Errors as in chosen_run."""
    choice = chosen_run.newest(store, chosen_run.PROBES)
    if choice:
        return choice
    database = store.dialect.database
    for question in (
        f"SELECT run FROM {database}.run ORDER BY started_at DESC, run DESC LIMIT 1",
        f"SELECT run FROM {database}.probe_day_all ORDER BY run DESC LIMIT 1",
    ):
        found = store.rows(question)
        if found:
            return Choice(str(found[0]["run"]))
    return None


def _figure8_choice(choices: QueryAnswer, vantage: str | None, day: date | None) -> Figure8Choice | None:
    found = [Figure8Choice(str(row["vantage"]), str(row["day"])) for row in choices.rows]
    matching = [
        choice
        for choice in found
        if vantage in (None, choice.vantage) and (day is None or day.isoformat() == choice.day)
    ]
    if matching:
        return matching[0]
    if vantage is None and day is None:
        return None
    raise UsageError(
        f"no probe was answered {' '.join(_requested(vantage, day))}; Figure 8 can show {_choices(found)}"
    )


def _requested(vantage: str | None, day: date | None) -> list[str]:
    return [f"at {vantage}"] * (vantage is not None) + [f"on {day}"] * (day is not None)


def _choices(found: Sequence[Figure8Choice]) -> str:
    return ", ".join(f"{choice.vantage} {choice.day}" for choice in found[:20]) or "none"
