"""Panel files: error messages name the file, and each page shows the panels that name the page."""

from __future__ import annotations

import hashlib
import shutil
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from firstflight.errors import UsageError
from reports import panel
from reports.dashboard import html
from reports.dashboard.pages import panel_table

HASHES = {
    "uplot.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uplot.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    "uplot.LICENSE": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
}
GOOD: dict[str, Any] = {
    "title": "Shares",
    "meaning": "What is counted.",
    "pages": ["overview"],
    "order": 1,
    "query": "share_over_time",
    "chart": "line",
    "x": "period",
    "series": "cdn",
    "y": ["iack_share"],
    "counts": "counted",
    "unit": "share",
}


def test_every_page_has_panels() -> None:
    shown = [shown_panel.name for page in panel.PAGES for shown_panel in panel.of_page(page)]
    assert set(shown) == set(panel.names())
    assert all(panel.of_page(page) for page in panel.PAGES)


def test_published_values_can_be_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    parameters = {"run": "newest", "since": "", "until": ""}
    answer: dict[str, Any] = {"meta": [{"name": "cdn", "type": "String"}], "data": [["Amazon"]]}
    described = GOOD | {"chart": "dots", "query": "table1", "x": "cdn", "y": ["names"], "series": ""}
    described |= {"reference": {"file": "imc2024", "x": "table1", "y": "iack_share_max", "label": "IMC"}}
    described |= {"counts": "counted", "published": "Published: a tenth."}
    for meta in ("names", "counted"):
        answer["meta"].append({"name": meta, "type": "UInt64"})
        answer["data"][0].append(7)

    def shown() -> tuple[str, list[str], float | None]:
        shown_panel = panel.parsed("mine", described)
        made = panel_table.table(shown_panel, answer, parameters)
        return shown_panel.meaning, [column.label for column in made.columns], made.rows[0].cells[-1].value

    assert shown() == (f"{GOOD['meaning']} Published: a tenth.", ["names", "IMC"], 0.41)
    monkeypatch.setenv("FIRSTFLIGHT_PUBLISHED", "hide")
    assert shown() == (GOOD["meaning"], ["names"], 7)


def test_the_library_is_the_published_file() -> None:
    """uPlot 1.6.32 from npm (dist/uPlot.iife.min.js, dist/uPlot.min.css, LICENSE), unchanged."""
    found = {name: hashlib.sha256((html.STATIC / name).read_bytes()).hexdigest() for name in HASHES}
    assert found == HASHES


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"title": None}, "the key title is missing"),
        ({"colour": "red"}, "there is no key 'colour'"),
        ({"pages": ["start"]}, "there is no page 'start'"),
        ({"pages": "overview"}, "pages is not a list"),
        ({"order": "first"}, "order is not a whole number"),
        ({"chart": "pie"}, "there is no chart 'pie'"),
        ({"query": "nosuch"}, "there is no query 'nosuch'"),
        ({"y": ["nosuch"]}, "the query share_over_time has no column 'nosuch'"),
        ({"parameters": {"nosuch": 1}}, "the query share_over_time has no parameter 'nosuch'"),
        ({"unit": "furlong"}, "there is no unit 'furlong'"),
        ({"counts": None}, "counts is missing: a chart shows the counts of each point"),
        ({"chart": "band"}, "a band has 5 columns y"),
        ({"y": ["iack_share", "strict_share"]}, "with series there is one column y"),
        ({"reference": {"file": "x"}}, "reference has the keys file, x, y and label"),
        ({"reference": dict.fromkeys(("file", "x", "y", "label"), "z")}, "there is no file z.csv"),
        ({"command": "ls {nosuch}"}, "command: the query share_over_time has no column 'nosuch'"),
        ({"labels": "none"}, "labels is not a mapping"),
    ],
    ids=str,
)
def test_a_wrong_file_is_one_sentence(change: dict[str, Any], sentence: str) -> None:
    described = {key: value for key, value in (GOOD | change).items() if value is not None}
    with pytest.raises(UsageError) as refused:
        panel.parsed("mine", described)
    assert str(refused.value).startswith(f"schemas/panels/mine.yaml: {sentence}")
    assert panel.parsed("mine", GOOD).title == "Shares"


def test_a_file_that_is_added_appears(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(panel.FOLDER, tmp_path / "panels")
    (tmp_path / "panels" / "mine.yaml").write_text(yaml.safe_dump(GOOD))
    monkeypatch.setattr(panel, "FOLDER", tmp_path / "panels")
    panel.load.cache_clear()
    assert panel.of_page("overview")[0].name == "mine"
    (tmp_path / "panels" / "mine.yaml").write_text("title: [")
    panel.load.cache_clear()
    with pytest.raises(UsageError, match=r"mine\.yaml is not YAML"):
        panel.of_page("overview")
    panel.load.cache_clear()


def answer(rows: list[list[Any]]) -> dict[str, Any]:
    """Return an answer with the columns of share_over_time that the panel needs."""
    types = {"period": "Date", "cdn": "String", "iack_share": "Nullable(Float64)", "counted": "UInt64"}
    return {"meta": [{"name": name, "type": kind} for name, kind in types.items()], "data": rows}


def test_null_is_not_zero_and_missing_is_neither() -> None:
    shown_panel = panel.parsed("mine", GOOD)
    parameters = {"since": "2026-11-01", "until": "2026-11-30"}
    made = panel_table.table(
        shown_panel,
        answer([["2026-11-20", "A", None, 0], ["2026-11-20", "B", 0.0, 4], ["2026-11-21", "B", 1 / 3, 1200]]),
        parameters,
    )
    assert [column.label for column in made.columns] == ["A", "B"]
    shown = [[(cell.text, cell.value, cell.count) for cell in row.cells] for row in made.rows]
    assert shown == [
        [("n/a", None, "0"), ("0.0 %", 0.0, "4")],
        [("", None, ""), ("33.3 %", 1 / 3, "1,200")],
    ]
    assert made.rows[0].head.value == 1_795_132_800  # 2026-11-20 00:00 UTC


def test_too_many_series_are_reported() -> None:
    shown_panel = panel.parsed("mine", GOOD)
    rows: list[list[Any]] = [
        ["2026-11-20", f"s{n:02}", 0.5, n + 1] for n in range(panel_table.MOST_SERIES + 3)
    ]
    made = panel_table.table(shown_panel, answer(rows), {"since": "2026-11-01", "until": "2026-11-30"})
    assert [column.label for column in made.columns] == [f"s{n:02}" for n in range(3, 15)]
    assert made.left_out == "3 series with fewer counts"


def test_of_a_long_table_the_first_rows_are_shown_and_of_a_long_time_the_last() -> None:
    many = panel_table.MOST_ROWS + 3
    shown_panel = panel.load("handshake_parameters")
    names = ("cdn", "handshakes", *shown_panel.y)
    meta = [{"name": name, "type": "String"} for name in names]
    rows = [[f"c{n:04}", 1, *(None for _ in shown_panel.y)] for n in range(many)]
    made = panel_table.table(shown_panel, {"meta": meta, "data": rows}, {})
    assert (made.rows[0].head.text, len(made.rows)) == ("c0000", panel_table.MOST_ROWS)
    assert made.left_out == "3 further rows"
    days = [str(date(2020, 1, 1) + timedelta(days=n)) for n in range(many)]
    over_time = panel.parsed("mine", GOOD)
    made = panel_table.table(over_time, answer([[day, "A", 0.5, 1] for day in days]), {})
    assert (made.rows[-1].head.text, len(made.rows)) == (days[-1], panel_table.MOST_ROWS)
    assert made.left_out == "3 earlier rows"


def test_published_values_are_shown_in_the_requested_days() -> None:
    shown_panel = panel.load("amplification")
    meta = [{"name": name, "type": "Float64"} for name in ("period", "probes", "above_3_share")]
    got = {"meta": meta, "data": [["2022-07-01", 10, 0.5], ["2022-08-03", 10, 0.25]]}
    made = panel_table.table(shown_panel, got, {"since": "2022-06-15", "until": "2022-08-31"})
    assert made.columns[-1].published
    assert [(row.head.text, [cell.text for cell in row.cells]) for row in made.rows] == [
        ("2022-07-01", ["50.0 %", "66.9 %"]),
        ("2022-08-01", ["", "65.9 %"]),
        ("2022-08-03", ["25.0 %", ""]),
    ]
