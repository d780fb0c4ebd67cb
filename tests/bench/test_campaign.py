"""The tables of `python -m bench campaign`, and its generated inputs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench.campaigns.campaign import stage_of
from bench.campaigns.campaign_world import made_names, made_table
from bench.campaigns.cost_table import GOALS, StageRow, parts, scaled, table, verdict
from crawler.routing import rib

FEW = [
    StageRow("as_data", {"Python": 2.0}, 50.0, "Python", 3.0, 4.0),
    StageRow("probe", {"prober": 0.2, "Python": 1.0}, 100.0, "Python", 5.0, 1.0, 0.5),
    StageRow("load", {"Python": 4.0}, 200.0, "Python", 6.0, 2.0),
]
MANY = [
    StageRow("as_data", {"Python": 2.5}, 51.0, "Python", 3.0, 4.0),
    StageRow("probe", {"prober": 1.1, "Python": 1.9}, 109.0, "Python", 50.0, 10.0, 5.0),
    StageRow("load", {"Python": 3.9}, 209.0, "Python", 6.0, 2.9),
]


def test_costs_grow_by_a_straight_line_and_the_routing_table_does_not() -> None:
    as_data, probe, load = scaled(FEW, MANY, (100, 1000), 10_000)
    assert (as_data.all_cpu_s, as_data.peak_mb) == (2.5, 51.0)
    assert probe.cpu_s == pytest.approx({"prober": 10.1, "Python": 10.9})
    assert (probe.peak_mb, probe.wall_s) == pytest.approx((199.0, 500.0))
    assert (probe.disk_mb, probe.capture_mb) == pytest.approx((100.0, 50.0))
    assert load.all_cpu_s == 3.9  # the fitted slope would be negative, so it is zero


@pytest.mark.parametrize(
    ("row", "kept"),
    [
        (StageRow("resolve", {"engine": 30.0, "Python": 10.0}), True),
        (StageRow("resolve", {"engine": 30.0, "Python": 10.1}), False),
        (
            StageRow(
                "probe", {"prober": 50.0, "Python": 25.0, "tcpdump": 150.0}, 1.0, "", 1.0, 2000.0, 1500.0
            ),
            True,
        ),
        (StageRow("probe", {"prober": 50.1}), False),
        (StageRow("probe", {"Python": 20.0, "other": 5.1}), False),
        (StageRow("probe", {"tcpdump": 150.1}), False),
        (StageRow("dissect", {"dissector": 12.0, "Python": 2.0}), True),
        (StageRow("dissect", {"dissector": 12.0, "Python": 2.1}), False),
        (StageRow("load", {"Python": 150.1}), False),
        (StageRow("campaign", {"Python": 260.0}), True),
        (StageRow("campaign", {"Python": 260.1}), False),
        (StageRow("dissect", {}, 1.0, "", 1.0, 2001.0), False),
        (StageRow("probe", {}, 1.0, "", 1.0, 1501.0, 1501.0), False),
    ],
)
def test_each_limit_and_goal_counts(row: StageRow, kept: bool) -> None:
    assert verdict([row, StageRow("report", {})], []).within_limits is kept


@pytest.mark.parametrize(
    ("row", "kept"),
    [
        (StageRow("probe", {}, 1000.0), True),
        (StageRow("probe", {}, 1001.0), False),
        (StageRow("load", {}, 1000.0), True),
        (StageRow("load", {}, 1001.0), False),
    ],
)
def test_memory_counts_as_measured(row: StageRow, kept: bool) -> None:
    straight_line = [StageRow("probe", {}, 1921.0), StageRow("load", {}, 2015.0)]
    assert verdict(straight_line, [row, StageRow("report", {}, 10.0)]).within_limits is kept


def test_the_parts_are_all_but_what_starts_the_stages() -> None:
    rows = [StageRow(name, {"Python": 1.0}) for name in ("targets", "resolve", "dissect", "report")]
    rows += [StageRow("as_data", {"Python": 2.0}), StageRow("load", {"Python": 3.0, "other": 0.5})]
    rows += [
        StageRow("probe", {"prober": 10.0, "tcpdump": 5.0, "Python": 4.0}),
        StageRow("campaign", {"Python": 9.0}),
    ]
    found = parts(rows)
    assert list(found) == list(GOALS)
    assert list(found.values()) == pytest.approx([1.0, 10.0, 4.0, 1.0, 1.0 + 2.0 + 5.0 + 3.5 + 1.0])


def test_the_last_lines_name_every_limit_and_goal() -> None:
    assert str(verdict(MANY, FEW)) == (
        "goals, CPU s per million names: resolve 0.0 (met: 40); prober 1.1 (met: 50); rest of probe 1.9 "
        "(met: 25); dissect 0.0 (met: 14); targets, as_data, tcpdump, load, report 6.4 (met: 150)\n"
        "total: 9 CPU s per million names (limit 260); largest process as measured 200 MB anonymous (limit "
        "1,000); 0.02 GB on disk (limit 2), 0.01 of it captures (limit 1.5)"
    )
    assert "dissect 14.1 (missed: 14)" in str(verdict([StageRow("dissect", {"dissector": 14.1})], []))


def test_a_table_has_a_line_for_each_stage_and_a_sum() -> None:
    lines = list(table(MANY))
    assert [line.split()[0] for line in lines] == ["stage", "as_data", "probe", "load", "sum"]
    assert lines[2].split()[1:5] == ["3.00", "109.0", "50.0", "10.0"]
    assert lines[2].endswith("Python 1.90, prober 1.10; Python")
    assert lines[-1].split()[1:4] == ["9.40", "209.0", "16.9"]


def test_a_process_of_several_stages_counts_for_the_last_started_one(tmp_path: Path) -> None:
    words = ["python", "-m", "cli", "stage", "resolve", "probe", "--run", str(tmp_path / "r"), "--here"]
    words += ["--vantage", "here", "--repetition", "1", "--centre-clock", "1"]
    assert stage_of(["python", "-m", "cli", "campaign", "run"]) is None
    assert stage_of([*words[:4], "load", *words[6:9]]) == "load"
    assert stage_of(words) == "resolve"
    for name in ("resolve", "probe"):
        report = tmp_path / "r" / "here" / "1" / name / "report.json"
        report.parent.mkdir(parents=True)
        report.touch()
        assert stage_of(words) == name


def test_made_names_differ_and_are_names() -> None:
    names = list(made_names(20_000))
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9]{6,20}\.[a-z.]+\.test", name) for name in names)


def test_the_generated_table_is_read_completely(tmp_path: Path) -> None:
    path = tmp_path / "rib.mrt"
    path.write_bytes(b"".join(made_table(66_000)))
    assert rib.convert([path], tmp_path / "rib.pyasn", "made up")["prefixes_v4"] == 66_000
    lines = (tmp_path / "rib.pyasn").read_text().splitlines()
    origins = dict(line.split("\t") for line in lines if not line.startswith(";"))
    assert len(origins) == 66_000
    assert origins["127.0.0.0/24"] == "13335"
    assert origins["127.255.255.0/24"] and origins["20.0.0.0/24"]
