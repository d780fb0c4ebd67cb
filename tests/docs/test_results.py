"""The tables of results in docs/ come from the kept results in docs/results."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from deploy.docs import marked_tables, result_table, results
from deploy.docs.result_table import Line, Table
from firstflight.errors import InputError

FOLDER = results.DOCS / "results"
LINES: tuple[Line, ...] = (
    {"client": "b", "server": "y", "rtt_ms": 20.0, "gain_ms": -0.04, "took_ms": 1500, "ours": {"low": 1.0}},
    {"client": "a", "server": "y", "rtt_ms": 9.0, "gain_ms": 2.26, "took_ms": None, "met": True},
    {"client": "a", "server": "x", "rtt_ms": 100.0, "gain_ms": 3.0, "took_ms": 250},
)


@pytest.mark.parametrize("page", results.pages(), ids=lambda path: path.stem)
def test_the_tables_of_a_page_are_those_of_the_kept_results(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    written = results.with_tables(text, page.relative_to(results.DOCS).as_posix())
    assert text == written, "run: python -m deploy.docs.results"


def test_each_table_is_on_a_page_and_each_file_in_a_table() -> None:
    known = results.tables()
    shown = [
        name
        for page in results.pages()
        for name in marked_tables.names(page.read_text("utf-8"), results.KIND)
    ]
    assert sorted(shown) == sorted(known)
    assert {table.of for table in known.values()} == {path.stem for path in FOLDER.glob("*.json")}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_a_kept_result_says_how_it_was_measured(path: Path) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    assert content["result"] == path.stem and content["lines"]
    assert content["commands"] and all(isinstance(command, str) for command in content["commands"])
    assert content["measured_on"] and content["versions"]
    # Without a completed trial, no program told its version.
    counts = ("trials", "done", "wfc_done")
    done = [line for line in content["lines"] if all(line.get(name) != 0 for name in counts)]
    stacks = {line[side] for line in done for side in ("client", "server") if line.get(side)}
    known = {stack for side in content["versions"].values() for stack in side}
    assert stacks <= known | {"all"}


@pytest.mark.parametrize(
    ("given", "rows"),
    [
        ({"rows": {"client": "{client}"}, "columns": {"s": "{took_ms/1000:.2f}"}}, ["b | 1.50", "a | 0.25"]),
        ({"rows": {"gain": "{gain_ms:.1f}"}}, ["0.0", "2.3", "3.0"]),
        (
            {"rows": {"RTT": "{rtt_ms:g}[ ({took_ms})]"}, "sort": ["rtt_ms"]},
            ["9", "20 (1500)", "100 (250)"],
        ),
        ({"rows": {"RTT": "{rtt_ms:g}"}, "where": {"client": ["a"], "server": ["x", "z"]}}, ["100"]),
        ({"rows": {"client": "{client}"}, "known": ["met"]}, ["a"]),
        (
            {"rows": {"client": "{client}"}, "columns": {"met": "{met}", "low": "{ours.low:g}"}},
            ["b | - | 1", "a | yes | -"],
        ),
        ({"rows": {"client": "{client}"}, "columns": {"RTT": "{rtt_ms:g}"}}, ["b | 20", "a | 9; 100"]),
        (
            {"rows": {"client": "{client}"}, "across": "{rtt_ms:g} ms", "cell": "{gain_ms:.0f}"},
            ["b | - | 0 | -", "a | 2 | - | 3"],
        ),
        (
            {"rows": {"s": "{server}"}, "columns": {"sum": "{took_ms}"}, "add": ["took_ms"]},
            ["y | 1501", "x | 250"],
        ),
    ],
)
def test_formats(given: dict[str, Any], rows: Sequence[str]) -> None:
    lines = [{**line, "took_ms": line["took_ms"] or 1} for line in LINES] if "add" in given else LINES
    table = result_table.markdown(Table.model_validate({"of": "own", **given}), lines)
    assert table.splitlines()[2:] == [f"| {row} |" for row in rows]


def test_equal_values_of_a_cell_are_one_value_and_titles_are_in_order() -> None:
    given = {"of": "own", "rows": {"all": "all"}, "across": "{rtt_ms:g} ms", "cell": "{answer}"}
    lines = [{"rtt_ms": rtt, "answer": "same"} for rtt in (100, 9, 9)]
    table = result_table.markdown(Table.model_validate(given), lines)
    assert table.splitlines() == ["| all | 9 ms | 100 ms |", "| --- | --- | --- |", "| all | same | same |"]


def kept(folder: Path, lines: Sequence[Line], **more: Any) -> Path:
    """Keep a result with a table `page/own`."""
    (folder / "own.json").write_text(json.dumps({"lines": lines, **more}), encoding="utf-8")
    (folder / "tables.toml").write_text(
        '["page/own"]\nof = "own"\nrows = {client = "{client}"}\ncolumns = {gain = "{gain_ms:.1f}"}\n',
        encoding="utf-8",
    )
    return folder


@pytest.mark.parametrize(
    ("head", "note"),
    [
        ({"measured_on": "2030-01-02"}, "measured on 2030-01-02"),
        ({"measured_on": "2030-01-02", "machine": "2 cores"}, "measured on 2030-01-02:\n2 cores"),
        ({}, "computed"),
        ({"measured_on": None}, "computed"),
    ],
)
def test_a_page_gets_the_table_and_the_source(tmp_path: Path, head: dict[str, str | None], note: str) -> None:
    page = "Text\n\n<!-- results: page/own -->\nold\n<!-- end -->\n\nmore\n"
    written = results.with_tables(
        page, "testbed/page.md", kept(tmp_path, [{"client": "a", "gain_ms": 1}], **head)
    )
    table = f"| client | gain |\n| --- | --- |\n| a | 1.0 |\n\nData: [own](../results/own.json), {note}.\n"
    assert written == f"Text\n\n<!-- results: page/own -->\n{table}<!-- end -->\n\nmore\n"
    assert results.with_tables(written, "testbed/page.md", tmp_path) == written


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"columns": {"low": "{ours.lwo:g}"}}, "ours.lwo"),
        ({"columns": {"low": "{us.low:g}"}}, "us.low"),
        ({"sort": ["sever"]}, "sever"),
        ({"known": ["gian_ms"]}, "gian_ms"),
    ],
)
def test_a_field_that_no_line_has_is_a_mistake(given: dict[str, Any], field: str) -> None:
    table = Table.model_validate({"of": "own", "rows": {"client": "{client}"}, **given})
    with pytest.raises(InputError, match=f"no line has the field {field}: correct it in tables.toml"):
        result_table.markdown(table, LINES)


@pytest.mark.parametrize(
    ("name", "lines", "message"),
    [
        ("page/other", [], r"docs/page.md: tables.toml has no table page/other: add it, or correct the name"),
        (
            "page/own",
            [{"client": "a"}],
            r"docs/results/own.json, table page/own: no line has the field gain_ms",
        ),
    ],
)
def test_a_mistake_is_one_sentence(tmp_path: Path, name: str, lines: Sequence[Line], message: str) -> None:
    with pytest.raises(InputError, match=message):
        results.with_tables(f"<!-- results: {name} -->\n<!-- end -->", "page.md", kept(tmp_path, lines))


def test_the_command_prints_a_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- results: page/other -->\n<!-- end -->\n", encoding="utf-8")
    monkeypatch.setattr(results, "DOCS", tmp_path)
    assert results.main() == 1
    assert capsys.readouterr().err == (
        "results: docs/page.md: tables.toml has no table page/other: add it, or correct the name\n"
    )
