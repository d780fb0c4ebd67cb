"""When periods, repetitions and reports are due, and which list and table a scan uses."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from datetime import date as Date
from pathlib import Path
from types import SimpleNamespace

import pytest

from firstflight.errors import FirstflightError, UsageError
from firstflight.run.run import Run
from firstflight.system import files
from orchestration.airflow import due, events
from orchestration.site import site, vantage_points
from tests.airflow.conftest import SITE
from tests.airflow.test_inputs import centre_files

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def test_a_planned_period_is_the_next_full_hour_and_numbered_by_it() -> None:
    at = datetime(2026, 11, 20, 22, 55, tzinfo=UTC)
    assert due.hour_after(at) == (at.replace(hour=23, minute=0), 3600, 24)
    assert due.hour_after(at + timedelta(hours=1)) == (datetime(2026, 11, 21, tzinfo=UTC), 3600, 1)
    assert due.manual(NOON, 90, 0.5) == (NOON + timedelta(seconds=90), 30, 1)


def test_the_report_waits_for_the_last_repetition_unless_the_run_is_stopped() -> None:
    day_s = 86400.0
    assert due.report(NOON, day_s, 1, 720, None) == NOON + timedelta(hours=12)
    assert due.report(NOON, day_s, 5, 720, None) == NOON + timedelta(days=4, hours=12)
    stopped = NOON + timedelta(hours=1)
    assert due.report(NOON, day_s, 5, 720, stopped) == stopped + due.AFTER_STOP
    assert due.report(NOON, day_s, 1, 30, stopped) == NOON + timedelta(minutes=30)


def test_more_repetitions_than_a_run_may_take_are_refused() -> None:
    due.check_length(86400, 28)
    due.check_length(0, 100)
    with pytest.raises(UsageError, match=r"60 repetitions, 1440 minutes apart, take 59 days, and a run ends"):
        due.check_length(86400, 60)


def extra(run: str, date: str) -> dict[str, str]:
    return {"run": run, "date": date}


def test_the_newest_list_counts_even_if_older_lists_arrive_later() -> None:
    came = [
        extra("a", "2026-11-19"),
        extra("b", "2026-11-20"),
        extra("c", "2026-11-20"),
        extra("d", "2026-08-01"),
    ]
    assert events.newest("targets", [{}, *came])["run"] == "c"
    with pytest.raises(FirstflightError, match="the asset targets was never published: run the DAG targets"):
        events.newest("targets", [{}])


@pytest.mark.parametrize("broken", [{"run": "x"}, {"run": "x", "date": None}, {"run": "x", "date": "soon"}])
def test_an_event_without_a_date_supplies_no_list(broken: dict[str, str]) -> None:
    assert events.newest("targets", [extra("a", "2026-11-19"), broken])["run"] == "a"
    with pytest.raises(FirstflightError, match="the asset targets was never published"):
        events.newest("targets", [broken])


def event(dag: str | None, extra: dict[str, str] | None) -> SimpleNamespace:
    return SimpleNamespace(source_dag_id=dag, extra=extra)


def test_only_events_of_the_dag_that_fetches_a_list_count() -> None:
    came = [("targets", extra("a", "2026-11-19")), ("quic_scan", extra("b", "9999-12-31")), (None, {})]
    found = [event(dag, extra) for dag, extra in (*came, ("targets", None))]
    assert events.published_by("targets", found) == [extra("a", "2026-11-19"), {}]
    assert events.published_by("crawl", found) == []


def test_a_backfill_of_old_lists_starts_no_scan() -> None:
    taken = {"targets": extra("t", "2026-11-20"), "as_data": extra("r", "2026-11-19")}
    today = Date(2026, 11, 20)

    def why(*runs: str, day: Date = today, dag: str = "targets") -> str | None:
        return events.why_no_scan(taken, [event(dag, {"run": run}) for run in runs], day, 3)

    assert why() is None, "a person started it"
    assert why("t", "r") is None and why("old", "r") is None and why("r", dag="as_data") is None
    assert "not of targets or as_data" in str(why("t", "r", dag="quic_scan")), "of another DAG's task"
    assert "only older lists and tables were published" in str(why("old", "older"))
    assert why(day=Date(2026, 11, 22)) is None
    assert "the newest as_data is of 2026-11-19, 4 days old" in str(why(day=Date(2026, 11, 23)))


def test_the_run_of_a_day_is_made_once_and_again_after_an_upgrade(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRSTFLIGHT_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("FIRSTFLIGHT_SITE", str(tmp_path))
    centre_files(tmp_path)
    points = vantage_points.load(SITE / "vantage_points.toml").vantage

    def of_day() -> Run:
        return site.run_of_day("w", NOON.date(), lambda: site.new_run(NOON.date(), points))

    first = of_day()
    assert of_day().id == first.id
    first.write_manifest({**first.manifest, "tool_version": "0.0.9+abc"})
    second = of_day()
    assert second.id != first.id and of_day().id == second.id
    files.write_json(tmp_path / "runs" / f"w-{NOON.date()}.json", {"run": "20260101T000000Z-000000"})
    assert of_day().id not in (first.id, second.id), "its folder was removed"
