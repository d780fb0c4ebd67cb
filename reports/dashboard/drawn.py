"""An answer as the table that a panel shows, and from which its chart is drawn."""

from __future__ import annotations

import csv
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

from reports import panel as panels
from reports.dashboard import html
from reports.dashboard.filters import address
from reports.panel import Panel

MOST_SERIES = 12
MOST_ROWS = 800


@dataclass(frozen=True)
class Cell:
    """A cell: its text, and if they are known its value, its counts, and where it leads."""

    text: str
    value: float | None = None
    count: str = ""
    link: str = ""


@dataclass(frozen=True)
class Column:
    """A column of values; `published`: not ours."""

    label: str
    link: str = ""
    is_text: bool = False
    published: bool = False


@dataclass(frozen=True)
class Row:
    """A row: its head, the time of the head in seconds since 1970 if it is one, and the cells."""

    head: Cell
    cells: Sequence[Cell]
    command: str = ""


@dataclass(frozen=True)
class Table:
    """The table of a panel; `left_out` says what of the answer it does not show."""

    columns: Sequence[Column]
    rows: Sequence[Row]
    left_out: str = ""


def table(panel: Panel, answer: Mapping[str, Any], asked: Mapping[str, str]) -> Table:
    """Return the table of an answer in JSONCompact. `asked`: the filters that its query got."""
    names = [one["name"] for one in answer["meta"]]
    rows = [dict(zip(names, values, strict=True)) for values in answer["data"]]
    numbers = {one["name"] for one in answer["meta"] if "Int" in one["type"] or "Float" in one["type"]}
    if panel.chart == "table":
        return _plain(panel, rows, asked, numbers)
    if panel.series:
        return _by_series(panel, rows)
    columns = [Column(panel.label(panel.counts)), *(Column(_quantile(panel, name)) for name in panel.y)]
    made = {
        row[panel.x]: [Cell(html.whole(row[panel.counts])), *(_cell(panel, row, name) for name in panel.y)]
        for row in rows
    }
    if panel.chart != "band":
        columns = columns[1:]
        made = {
            x: [Cell(cell.text, cell.value, cells[0].text) for cell in cells[1:]] for x, cells in made.items()
        }
    if panel.reference:
        columns.append(Column(panel.reference.label, published=True))
        published = _published(panel, asked)
        made = {x: [*cells, _reference(panel, published.pop(x, None))] for x, cells in made.items()}
        blank = [Cell("")] * (len(columns) - 1)
        made |= {x: [*blank, _reference(panel, value)] for x, value in published.items()} if rows else {}
    return _cut(columns, [Row(_head(x), made[x]) for x in sorted(made)])


def _by_series(panel: Panel, rows: Sequence[Mapping[str, Any]]) -> Table:
    """One column per value of the series, in the order of the answer; the ones with most counts."""
    totals: dict[str, int] = {}
    for row in rows:
        totals[row[panel.series]] = totals.get(row[panel.series], 0) + int(row[panel.counts])
    most = sorted(totals, key=lambda name: -totals[name])[:MOST_SERIES]
    shown = [name for name in totals if name in most]
    made: dict[Any, dict[str, Cell]] = {}
    for row in rows:
        cell = _cell(panel, row, panel.y[0])
        count = html.whole(row[panel.counts])
        made.setdefault(row[panel.x], {})[row[panel.series]] = Cell(cell.text, cell.value, count)
    page = panel.links.get(panel.series, "")
    columns = [Column(html.plain(name), address(page, name) if page else "") for name in shown]
    body = [Row(_head(x), [made[x].get(name, Cell("")) for name in shown]) for x in sorted(made)]
    fewer = f"{len(totals) - len(shown)} series with fewer counts" if len(totals) > len(shown) else ""
    return _cut(columns, body, fewer)


def _plain(
    panel: Panel, rows: Sequence[Mapping[str, Any]], asked: Mapping[str, str], numbers: set[str]
) -> Table:
    columns = [Column(panel.label(name), is_text=name not in numbers) for name in panel.y]
    published = _published(panel, asked) if panel.reference else {}
    if panel.reference:
        columns.append(Column(panel.reference.label, published=True))
    body = []
    for row in rows:
        cells = [_cell(panel, row, name) for name in panel.y]
        if panel.reference:
            cells.append(_reference(panel, published.get(row[panel.x])))
        command = ""
        if panel.command:
            values = {name: shlex.quote(str(value)) for name, value in {**asked, **row}.items()}
            command = panel.command.format_map(values)
        body.append(Row(_cell(panel, row, panel.x), cells, command))
    # In the order of its query, which begins with what matters most; the others are in order of time.
    return _cut(columns, body, newest=False)


def _cut(columns: Sequence[Column], rows: list[Row], left_out: str = "", *, newest: bool = True) -> Table:
    if len(rows) > MOST_ROWS:
        more = f"{len(rows) - MOST_ROWS} {'earlier' if newest else 'further'} rows"
        left_out = f"{left_out}, {more}" if left_out else more
    return Table(columns, rows[-MOST_ROWS:] if newest else rows[:MOST_ROWS], left_out)


def _cell(panel: Panel, row: Mapping[str, Any], name: str) -> Cell:
    value = row[name]
    link = panel.links.get(name, "")
    count = panel.counts_of.get(name, "")
    return Cell(
        # Numbers of ASes are names.
        str(value)
        if name.endswith("asn") and value is not None
        else html.measured(value, panel.unit_of(name)),
        None if value is None or isinstance(value, str | bool | list) else float(value),
        html.whole(row[count]) if count else "",
        address(link, value) if link and value else "",
    )


def _head(x: Any) -> Cell:
    """Return the head of a row of a chart, with its time."""
    stamp = datetime.fromisoformat(str(x)).replace(tzinfo=UTC).timestamp()
    return Cell(html.plain(str(x)), stamp)


def _quantile(panel: Panel, name: str) -> str:
    return (
        "median"
        if name.startswith("p50") and name not in panel.labels
        else panel.label(name).removesuffix(" us")
    )


def _reference(panel: Panel, value: float | None) -> Cell:
    if value is None:
        return Cell("")
    return Cell(html.measured(value, panel.unit), value)


def _published(panel: Panel, asked: Mapping[str, str]) -> dict[str, float]:
    """Return the published values by x, of months as their first day, of the days asked for."""
    assert panel.reference is not None
    values = _file(panel.reference.file, panel.reference.x, panel.reference.y)
    if panel.chart == "table":
        return dict(values)
    return {x: value for x, value in values.items() if asked["since"] <= x <= asked["until"]}


@cache
def _file(name: str, x: str, y: str) -> dict[str, float]:
    with (panels.PUBLISHED / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        return {f"{row[x]}-01" if x == "month" else row[x]: float(row[y]) for row in rows if row[y]}
