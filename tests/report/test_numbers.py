"""The results of the page's queries, compared with numpy's counts of the rows."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import numpy as np
import pytest

from reports import question
from reports.figures import pto
from reports.page import advice
from store import open_store
from tests.report.conftest import ReportedRun
from tests.report.world import CDNS, HOSTILE, VANTAGES, answers


@pytest.fixture(scope="module")
def rows(made: ReportedRun) -> list[dict[str, Any]]:
    """Return the probes for figures: first IPv4 address, a CDN, answered at the first attempt."""
    return [
        row
        for vantage in VANTAGES
        for repetition in (1, 2)
        for row in answers(vantage, repetition, made.run)
        if row["cdn"] and ":" not in row["ip"]
        if row["attempts"] == 1 and row["outcome"] in ("iack", "coalesced")
    ]


def test_curves_of_figures_8_and_14_are_exact_at_each_step(
    made: ReportedRun, rows: list[dict[str, Any]]
) -> None:
    figure8, choice = made.gathered.figure8, made.gathered.figure8_choice
    assert figure8 is not None and choice is not None
    repetition = {"2026-11-20": 1, "2026-11-21": 2}[choice.day]
    shown_rows = [row for row in rows if row["vantage"] == choice.vantage and row["repetition"] == repetition]
    _check_curves(figure8.curves.rows, ("cdn",), "delay_us", shown_rows)
    _check_curves(made.gathered.figure14.curves.rows, ("vantage", "cdn"), "delay_us", rows)


def test_curves_of_figure_10_are_exact_at_each_step(made: ReportedRun, rows: list[dict[str, Any]]) -> None:
    known = [row for row in rows if row["ack_delay_us"] is not None]
    assert len(known) < len(rows)
    curves = made.gathered.figure10.curves.rows
    for way in ("paper", "physical"):
        curves_of_way = [row for row in curves if row["way"] == way]
        values = [{**row, "ack_to_sh_us": _difference(row, way)} for row in known]
        assert min(row["ack_to_sh_us"] for row in values) < 0
        _check_curves(curves_of_way, ("outcome", "cdn"), "difference_us", values)


def _difference(row: dict[str, Any], way: str) -> int:
    delay = row["ack_us"] if way == "physical" else row["ack_to_sh_us"]
    return int(delay - row["ack_delay_us"])


def _check_curves(
    curves: list[dict[str, Any]], keys: tuple[str, ...], value: str, rows: list[dict[str, Any]]
) -> None:
    """Check that each step has the number of values up to it, and that the last step has all values."""

    def key(row: dict[str, Any]) -> tuple[str, ...]:
        return tuple(row[name] for name in keys)

    groups = {group: list(points) for group, points in groupby(curves, key=key)}
    assert set(groups) == {key(row) for row in rows}
    for group, points in groups.items():
        values = np.array([row["ack_to_sh_us"] for row in rows if key(row) == group])
        for point in points:
            assert point["at_most"] == (values <= point[value]).sum(), (group, point)
            assert point["of_probes"] == len(values)
        assert points[-1]["at_most"] == len(values)
        assert points[-1][value] >= values.max()
        # Steps are at most a fortieth of a decade, the resolution of the axis.
        assert points[0][value] - values.min() <= 0.06 * (abs(values.min()) + 100)


def test_quartiles_are_those_of_instant_acks(made: ReportedRun, rows: list[dict[str, Any]]) -> None:
    for number in made.gathered.figure14.numbers.rows:
        counted = [r for r in rows if r["cdn"] == number["cdn"] and number["vantage"] in (None, r["vantage"])]
        instant = [r["ack_to_sh_us"] for r in counted if r["outcome"] == "iack"]
        assert (number["drawn"], number["iack"]) == (len(counted), len(instant))
        if instant:
            assert number["quartiles_us"] == pytest.approx(list(np.quantile(instant, [0.25, 0.5, 0.75])))
        else:
            assert number["quartiles_us"] == []
    google = next(r for r in made.gathered.figure14.numbers.rows if r["cdn"] == "Google")
    assert (google["vantage"], google["repeated"]) == (None, 6)  # probed twice, so excluded
    others = next(r for r in made.gathered.figure14.numbers.rows if r["cdn"] == "Others")
    assert others["sh_first"] == 6


def test_numbers_of_figure_10(made: ReportedRun, rows: list[dict[str, Any]]) -> None:
    for number in made.gathered.figure10.numbers.rows:
        counted = [r for r in rows if (r["cdn"], r["outcome"]) == (number["cdn"], number["outcome"])]
        known = np.array([_difference(r, number["way"]) for r in counted if r["ack_delay_us"] is not None])
        assert (number["probes"], number["without_ack_delay"]) == (len(known), len(counted) - len(known))
        assert number["below_zero"] == (known < 0).sum()
        assert number["within_1ms"] == (abs(known) < 1000).sum()
        assert number["quartiles_us"] == pytest.approx(list(np.quantile(known, [0.25, 0.5, 0.75])))


def test_places_and_advice(made: ReportedRun, rows: list[dict[str, Any]]) -> None:
    for place in made.gathered.figure4.points:
        counted = [
            r for r in rows if (r["cdn"], r["vantage"], r["outcome"]) == (place.cdn, place.vantage, "iack")
        ]
        rtt, delta = (np.array([r[name] for r in counted]) for name in ("ack_us", "ack_to_sh_us"))
        assert place.probes == len(counted)
        assert place.rtt_us == pytest.approx(tuple(np.quantile(rtt, [0.25, 0.5, 0.75])))
        assert place.delta_us == pytest.approx(tuple(np.quantile(delta, [0.25, 0.5, 0.75])))
        assert place.spurious_paper == (delta >= 3 * rtt).sum()
        assert place.spurious_rfc == (delta >= rtt + np.maximum(2 * rtt, 1000)).sum()
    given = {(row.cdn, row.point.vantage if row.point else None): row.advice for row in made.gathered.advice}
    assert given["Cloudflare", "hamburg"].no_loss == "IACK"
    assert given["Google", "los_angeles"].no_loss == "WFC"  # 40 ms against 3 x 7 to 9 ms
    assert given["Google", "sao_paulo"].no_loss == "IACK"
    assert given["Fastly", None] == advice.Advice(None, "WFC", "IACK", "IACK")
    assert list(dict.fromkeys(cdn for cdn, _ in given)) == list(CDNS)


@pytest.mark.parametrize(
    ("outcomes", "why", "no_loss_lost"),
    [
        ({"coalesced": 2, "timeout": 9}, "waits everywhere", "WFC"),
        ({"sh_first": 1}, "waits everywhere", "WFC"),
        ({"timeout": 9, "blocked": 3, "retry": 2}, "no answer", None),
        ({}, "no answer", None),
        ({"iack": 1, "coalesced": 5}, "none counts", "WFC"),
    ],
)
def test_a_cdn_without_a_point_has_a_reason(
    outcomes: dict[str, int], why: str, no_loss_lost: str | None
) -> None:
    counted = dict.fromkeys(("iack", "coalesced", "sh_first", "timeout"), 0) | outcomes
    (row,) = advice.rows([], [{"cdn": "Fastly", **counted}])
    assert (row.cdn, row.point, row.why) == ("Fastly", None, why)
    assert (row.advice.no_loss, row.advice.server_flight_lost) == (None, no_loss_lost)


def test_pto_cases_are_the_measured_medians(made: ReportedRun) -> None:
    shown = made.gathered.figure8_choice
    assert shown is not None
    example, *measured = made.gathered.figure2.cases
    assert (example.delta_ms, example.instant[0], example.waiting[0]) == (4, 27, 39)
    point_of = {p.cdn: p for p in made.gathered.figure4.points if p.vantage == shown.vantage}
    assert len(measured) == pto.MEASURED
    for case in measured:
        place = point_of[case.title.split(",")[0]]
        assert (case.rtt_ms, case.delta_ms) == (place.rtt_us[1] / 1000, place.delta_us[1] / 1000)
        assert case.waiting[0] - case.instant[0] == pytest.approx(3 * case.delta_ms)


@pytest.mark.parametrize(
    "text", ["plain", "it's", "back\\slash", "{run:String}", "tab\tnew\nline\0", HOSTILE]
)
def test_a_value_in_a_question_stays_that_value(made: ReportedRun, text: str) -> None:
    with open_store(made.url) as store:
        statement = "SELECT {text:String} AS text, {number:Int64} AS number"
        answer = question.run_rendered(store, statement, {"text": text, "number": -7})
    assert answer.rows == [{"text": text, "number": -7}]
