"""Converts an answer to a panel's table, from which the chart is drawn."""

from __future__ import annotations

import csv
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any, NamedTuple

from reports import panel as panels
from reports import published_values
from reports.dashboard import html
from reports.dashboard.pages import run_reports
from reports.dashboard.pages.filters import address
from reports.panel import Panel, Reference

MOST_SERIES = 12
MOST_ROWS = 800


@dataclass(frozen=True)
class TableCell:
    """A cell: the text and, if known, the value, the counts, and the link's address."""

    text: str
    value: float | None = None
    count: str = ""
    link: str = ""


@dataclass(frozen=True)
class TableColumn:
    """A column of values; `published`: values from a paper."""

    label: str
    link: str = ""
    is_text: bool = False
    published: bool = False


@dataclass(frozen=True)
class TableRow:
    """A row: its head, which has its time in seconds since 1970 if it is a time, and the cells."""

    head: TableCell
    cells: Sequence[TableCell]
    command: str = ""


@dataclass(frozen=True)
class PanelTable:
    """A panel's table; `left_out` describes omitted parts of the answer."""

    columns: Sequence[TableColumn]
    rows: Sequence[TableRow]
    left_out: str = ""


class Number(NamedTuple):
    """A number above the panels: the name, the text, a note, and the link's address."""

    label: str
    text: str
    about: str
    link: str = ""


def summary(row: Mapping[str, Any]) -> list[Number]:
    """Return a run's numbers, from the row of `run_summary`."""
    vantages = int(row["vantages"])
    places = f"{vantages} vantage point{'' if vantages == 1 else 's'}"
    return [
        Number("Names probed", html.count_text(row["names"]), f"from {places}"),
        Number(
            "Instant ACKs",
            html.value_with_unit(row["iack_share"], "share"),
            f"of {html.count_text(row['counted'])}",
        ),
        Number(
            "Median delay",
            html.value_with_unit(row["delay_p50_us"], "us"),
            f"ACK to ServerHello, of {html.count_text(row['delays'])}",
        ),
        Number(
            "Newest run", str(row["first_day"] or "n/a"), str(row["run"]), run_reports.address(row["run"])
        ),
    ]


def table(panel: Panel, answer: Mapping[str, Any], page_filters: Mapping[str, str]) -> PanelTable:
    """Return the table of an answer in JSONCompact. `page_filters`: the filters in its query."""
    names = [column["name"] for column in answer["meta"]]
    rows = [dict(zip(names, values, strict=True)) for values in answer["data"]]
    numbers = {
        column["name"] for column in answer["meta"] if "Int" in column["type"] or "Float" in column["type"]
    }
    if panel.chart in panels.TABLES:
        return _plain(panel, rows, page_filters, numbers)
    if panel.series:
        return _by_series(panel, rows)
    columns = [
        TableColumn(panel.label(panel.counts)),
        *(TableColumn(_quantile(panel, name)) for name in panel.y),
    ]
    cells_by_x = {
        row[panel.x]: [
            TableCell(html.count_text(row[panel.counts])),
            *(_cell(panel, row, name) for name in panel.y),
        ]
        for row in rows
    }
    if panel.chart != "band":
        columns = columns[1:]
        cells_by_x = {
            x: [TableCell(cell.text, cell.value, cells[0].text) for cell in cells[1:]]
            for x, cells in cells_by_x.items()
        }
    if panel.reference and published_values.are_shown():
        columns.append(TableColumn(panel.reference.label, published=True))
        published = _published(panel.reference, panel.chart, page_filters)
        cells_by_x = {
            x: [*cells, _reference(panel, published.pop(x, None))] for x, cells in cells_by_x.items()
        }
        blank = [TableCell("")] * (len(columns) - 1)
        cells_by_x |= (
            {x: [*blank, _reference(panel, value)] for x, value in published.items()} if rows else {}
        )
    return _cut(columns, [TableRow(_head(x), cells_by_x[x]) for x in sorted(cells_by_x)])


def _by_series(panel: Panel, rows: Sequence[Mapping[str, Any]]) -> PanelTable:
    """Return a column per series, in the order of the answer; only the series with most counts."""
    totals: dict[str, int] = {}
    for row in rows:
        totals[row[panel.series]] = totals.get(row[panel.series], 0) + int(row[panel.counts])
    most = sorted(totals, key=lambda name: -totals[name])[:MOST_SERIES]
    shown = [name for name in totals if name in most]
    cells_by_x: dict[Any, dict[str, TableCell]] = {}
    for row in rows:
        cell = _cell(panel, row, panel.y[0])
        count = html.count_text(row[panel.counts])
        cells_by_x.setdefault(row[panel.x], {})[row[panel.series]] = TableCell(cell.text, cell.value, count)
    page = panel.links.get(panel.series, "")
    columns = [TableColumn(html.plain(name), address(page, name) if page else "") for name in shown]
    body = [
        TableRow(_head(x), [cells_by_x[x].get(name, TableCell("")) for name in shown])
        for x in sorted(cells_by_x)
    ]
    fewer = f"{len(totals) - len(shown)} series with fewer counts" if len(totals) > len(shown) else ""
    return _cut(columns, body, fewer)


def _plain(
    panel: Panel, rows: Sequence[Mapping[str, Any]], page_filters: Mapping[str, str], numbers: set[str]
) -> PanelTable:
    columns = [TableColumn(panel.label(name), is_text=name not in numbers) for name in panel.y]
    shown = panel.reference if published_values.are_shown() else None
    published = _published(shown, panel.chart, page_filters) if shown else {}
    if shown:
        columns.append(TableColumn(shown.label, published=True))
    body = []
    for row in rows:
        cells = [_cell(panel, row, name) for name in panel.y]
        if shown:
            cells.append(_reference(panel, published.get(row[panel.x])))
        command = ""
        if panel.command:
            values = {name: shlex.quote(str(value)) for name, value in {**page_filters, **row}.items()}
            command = panel.command.format_map(values)
        body.append(TableRow(_cell(panel, row, panel.x), cells, command))
    # In the order of the query, which sorts by importance; other tables are sorted by time.
    return _cut(columns, body, newest=False)


def _cut(
    columns: Sequence[TableColumn], rows: list[TableRow], left_out: str = "", *, newest: bool = True
) -> PanelTable:
    if len(rows) > MOST_ROWS:
        more = f"{len(rows) - MOST_ROWS} {'earlier' if newest else 'further'} rows"
        left_out = f"{left_out}, {more}" if left_out else more
    return PanelTable(columns, rows[-MOST_ROWS:] if newest else rows[:MOST_ROWS], left_out)


def _cell(panel: Panel, row: Mapping[str, Any], name: str) -> TableCell:
    value = row[name]
    link = panel.links.get(name, "")
    count = panel.counts_of.get(name, "")
    return TableCell(
        # Numbers of ASes are names.
        str(value)
        if name.endswith("asn") and value is not None
        else html.value_with_unit(value, panel.unit_of(name)),
        None if value is None or isinstance(value, str | bool | list) else float(value),
        html.count_text(row[count]) if count else "",
        address(link, value) if link and value else "",
    )


def _head(x: Any) -> TableCell:
    """Return the head of a row of a chart, with its time."""
    stamp = datetime.fromisoformat(str(x)).replace(tzinfo=UTC).timestamp()
    return TableCell(html.plain(str(x)), stamp)


def _quantile(panel: Panel, name: str) -> str:
    return (
        "median"
        if name.startswith("p50") and name not in panel.labels
        else panel.label(name).removesuffix(" us")
    )


def _reference(panel: Panel, value: float | None) -> TableCell:
    if value is None:
        return TableCell("")
    return TableCell(html.value_with_unit(value, panel.unit), value)


def _published(reference: Reference, chart: str, page_filters: Mapping[str, str]) -> dict[str, float]:
    """Return the published values by x within the requested days; a month is its first day."""
    values = _file(reference.file, reference.x, reference.y)
    if chart in panels.TABLES:
        return dict(values)
    return {x: value for x, value in values.items() if page_filters["since"] <= x <= page_filters["until"]}


@cache
def _file(name: str, x: str, y: str) -> dict[str, float]:
    with (panels.PUBLISHED / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        if rows.fieldnames and "part" in rows.fieldnames:
            return published_values.column_of(name, x, y)
        return {f"{row[x]}-01" if x == "month" else row[x]: float(row[y]) for row in rows if row[y]}
