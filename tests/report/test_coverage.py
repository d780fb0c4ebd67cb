"""The report's list of missing data."""

from __future__ import annotations

from typing import Any

import pytest

from firstflight.layout import StageKey
from firstflight.shard import Shard
from reports.page import coverage, provenance

SETTINGS = {"vantage": [{"name": "hamburg"}, {"name": "oslo"}]}


def row(vantage: str, repetition: int, probes: int = 10) -> dict[str, Any]:
    return {"vantage": vantage, "repetition": repetition, "probes": probes}


def stage(vantage: str, repetition: int, state: str, **more: Any) -> dict[str, Any]:
    return {"stage": "probe", "vantage": vantage, "repetition": repetition, "state": state, **more}


def test_each_absence_is_named_with_its_cause() -> None:
    stages = [
        stage("hamburg", 1, "done", rows_out=10),
        stage("hamburg", 2, "done", rows_out=12),
        stage("oslo", 1, "done", rows_out=10),
        stage("oslo", 2, "failed", message="tcpdump did not start"),
        {"stage": "dissect", "vantage": "oslo", "repetition": 3, "state": "failed"},
    ]
    found = coverage.compare(
        [row("hamburg", 1), row("hamburg", 2)], {"repetitions": 3, "stages": stages}, SETTINGS
    )
    assert found.missing == [
        "hamburg, repetition 2: 10 of the 12 probes that the stage reported are in the store",
        "hamburg, repetition 3: the probe stage was never started",
        "oslo, repetition 1: probed, but not loaded into the store",
        "oslo, repetition 2: the probe stage is failed (tcpdump did not start)",
        "oslo, repetition 3: the probe stage was never started",
    ]


def test_without_the_runs_record_only_gaps_between_rows_show() -> None:
    found = coverage.compare([row("hamburg", 1), row("oslo", 2)], {}, {})
    assert found.missing == [
        "hamburg, repetition 2: no probes in the store",
        "oslo, repetition 1: no probes in the store",
    ]
    assert coverage.compare([], {}, {}) == coverage.Coverage([], {})


def test_nothing_is_missing_when_all_stages_were_loaded() -> None:
    stages = [stage(vantage, 1, "done", rows_out=10) for vantage in ("hamburg", "oslo")]
    rows = [row("hamburg", 1), row("oslo", 1)]
    assert not coverage.compare(rows, {"repetitions": 1, "stages": stages}, SETTINGS).missing


@pytest.mark.parametrize(
    ("probes", "states", "lacks"),
    [
        (30, ("done", "done", "done"), None),
        (20, ("done", "done", "done"), "20 of the 30 probes that the stage reported are in the store"),
        (None, ("done", "done", "done"), "probed, but not loaded into the store"),
        (20, ("done", "failed", "done"), "the probe stage of shard 1/3 is failed"),
        (20, ("done", "done"), "the probe stage of 1 of 3 shards was never started"),
        (
            None,
            ("failed",),
            "the probe stage of shard 0/3 is failed; the probe stage of 2 of 3 shards was never started",
        ),
    ],
)
def test_shards_of_a_vantage_point_are_counted_together(
    probes: int | None, states: tuple[str, ...], lacks: str | None
) -> None:
    stages = [
        stage("oslo", 1, state, shard=f"{number}/3", rows_out=10 if state == "done" else None)
        for number, state in enumerate(states)
    ]
    rows = [] if probes is None else [row("oslo", 1, probes)]
    settings = {"vantage": [{"name": "oslo", "shards": 3}]}
    (cell,) = coverage.compare(rows, {"repetitions": 1, "stages": stages}, settings).cells["oslo"]
    assert cell.lacks == lacks


def test_a_scheduled_run_lacks_the_stages_in_its_outcome() -> None:
    key = StageKey("R", "hamburg", 1, Shard(2, 4))
    manifest = {
        "repetitions": 2,
        "vantage_points": ["hamburg"],
        "missing": [str(key), "hamburg, repetition 2"],
    }
    found = coverage.compare([row("hamburg", 1), row("hamburg", 2)], manifest, SETTINGS)
    assert found.missing == [
        "hamburg, repetition 1: not loaded: shard 2/4",
        "hamburg, repetition 2: not loaded whole",
    ]
    assert coverage.compare([row("hamburg", 1)], manifest, SETTINGS).missing[1:] == [
        "hamburg, repetition 2: no probes in the store"
    ]
    complete = manifest | {"missing": [], "repetitions": 1}
    assert not coverage.compare([row("hamburg", 1)], complete, SETTINGS).missing


def test_passwords_do_not_reach_the_page() -> None:
    text = '{"url": "clickhouse://me:s3:cr@et@db.example:9440/firstflight", "other": "https://example.org/a:b@c"}'
    shown = provenance.without_passwords(text)
    assert "s3" not in shown and "et@" not in shown
    assert "clickhouse://me:***@db.example:9440/firstflight" in shown
    assert "https://example.org/a:b@c" in shown
