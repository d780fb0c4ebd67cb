"""Panels of the dashboard: a named query, and how to present the answer (`schemas/panels/NAME.yaml`).

title, meaning     the content of the chart, and the counted rows
pages, order       the pages that have the panel (PAGES), and its position there
query, parameters  the named query, and fixed values, which replace the page's filters
chart              line, band (a series' five quantiles), bars, table, or dots: a table with a dot for
                   each value of the first column y
x, series, y       columns: the axis, optionally one line per value, and the values
counts, counts_of  the column with the number of observations for each value; of a table by column
unit, units        unit of the values (UNITS); of a table also by column
axes, labels       names of the axes and of columns
links              column -> page for the column's values; the value is the last part of the page's address
published          a sentence with published values, added to the meaning unless they are hidden
reference          published values: file of reports/published, its columns x and y, and a label
command            a command per row in a table, with {column} and {page parameter}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Any

import yaml

from firstflight.errors import UsageError
from reports import published_values, query
from schemas import sql, yaml_text

FOLDER = sql.HERE / "panels"
PUBLISHED = Path(__file__).parent / "published"
PAGES = ("overview", "cdn", "name", "vantage", "watch", "downloads", "handshakes")
CHARTS = ("line", "band", "bars", "table", "dots")
TABLES = ("table", "dots")
"""Charts in which x is not a time."""
UNITS = ("share", "us", "bps", "probes", "times")
BAND = 5
"""Columns for a band: two lower quantiles, the median, two upper ones."""
_NEEDED = frozenset({"title", "meaning", "pages", "order", "query", "chart", "x", "y"})


@dataclass(frozen=True)
class Reference:
    """Published values next to ours, from FILE.csv in reports/published.

    `x` and `y` are columns; in a file with one value per line they are the part and the column.
    """

    file: str
    x: str
    y: str
    label: str


@dataclass(frozen=True)
class Panel:
    """A panel, checked against its query."""

    name: str
    title: str
    meaning: str
    pages: tuple[str, ...]
    order: int
    query: str
    chart: str
    x: str
    y: tuple[str, ...]
    series: str = ""
    counts: str = ""
    unit: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    counts_of: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    axes: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    published: str = ""
    links: Mapping[str, str] = field(default_factory=dict)
    reference: Reference | None = None
    command: str = ""

    def given(self, filters: Mapping[str, str]) -> dict[str, str]:
        """Return the query's values: the page's filters that the query has, and the panel's parameters."""
        known = {parameter.name for parameter in query.load(self.query).parameters}
        return {name: value for name, value in filters.items() if name in known} | dict(self.parameters)

    def label(self, column: str) -> str:
        """Return a column's displayed name."""
        return self.labels.get(column, column.replace("_", " "))

    def unit_of(self, column: str) -> str:
        """Return a column's unit; empty for texts, days and counts."""
        if self.units or self.chart not in TABLES:
            return self.units.get(column, self.unit if column in self.y and self.chart not in TABLES else "")
        return self.unit if column.endswith("share") or column.startswith("change") else ""


def of_page(page: str) -> list[Panel]:
    """Return a page's panels, in order."""
    found = [panel for panel in map(load, names()) if page in panel.pages]
    return sorted(found, key=lambda panel: (panel.order, panel.name))


def names() -> list[str]:
    """Return the names of all panels, sorted."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


@cache
def load(name: str) -> Panel:
    """Return the panel with that name; UsageError with the file and the fault."""
    path = FOLDER / f"{name}.yaml"
    try:
        described = yaml_text.read(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"the panel {path} cannot be read: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise UsageError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    return parsed(name, described)


def parsed(name: str, described: Any) -> Panel:
    """Return the panel that the content of a file describes; UsageError if it is not one."""
    if not isinstance(described, dict):
        raise _panel_error(name, "it has no keys: write title, meaning, pages and the others")
    known = {field for field in Panel.__dataclass_fields__ if field != "name"}
    for key in described:
        if key not in known:
            raise _panel_error(name, f"there is no key {key!r}: the keys are {', '.join(sorted(known))}")
    for key in sorted(_NEEDED - described.keys()):
        raise _panel_error(name, f"the key {key} is missing")
    given = dict(described)
    for key, kind in (("order", int), ("pages", list), ("y", list)):
        if not isinstance(given[key], kind):
            raise _panel_error(name, f"{key} is not a {'whole number' if kind is int else 'list'}")
    for key in ("parameters", "counts_of", "units", "axes", "labels", "links", "reference"):
        if not isinstance(given.get(key, {}), dict):
            raise _panel_error(name, f"{key} is not a mapping")
        if key != "reference" and key in given:
            given[key] = {str(left): str(right) for left, right in given[key].items()}
    if "reference" in given:
        if set(given["reference"]) != set(Reference.__dataclass_fields__):
            raise _panel_error(name, "reference has the keys file, x, y and label")
        given["reference"] = Reference(**{key: str(value) for key, value in given["reference"].items()})
    if given.get("published") and published_values.are_shown():
        given["meaning"] = f"{given['meaning']} {given['published']}"
    panel = Panel(name, **given | {"pages": tuple(given["pages"]), "y": tuple(given["y"])})
    _check(panel)
    return panel


def _check(panel: Panel) -> None:
    for page in panel.pages:
        if page not in PAGES:
            raise _panel_error(panel.name, f"there is no page {page!r}: the pages are {', '.join(PAGES)}")
    if panel.chart not in CHARTS:
        raise _panel_error(
            panel.name, f"there is no chart {panel.chart!r}: the charts are {', '.join(CHARTS)}"
        )
    if panel.query not in query.names():
        raise _panel_error(panel.name, f"there is no query {panel.query!r} in schemas/queries")
    named_query = query.load(panel.query)
    columns = {panel.x, *panel.y, *panel.counts_of, *panel.counts_of.values(), *panel.units, *panel.links}
    columns |= {name for name in (panel.series, panel.counts) if name}
    for column in sorted(columns | panel.labels.keys()):
        if column not in named_query.columns:
            raise _panel_error(panel.name, f"the query {panel.query} has no column {column!r}")
    known = {parameter.name for parameter in named_query.parameters}
    for name in panel.parameters:
        if name not in known:
            raise _panel_error(panel.name, f"the query {panel.query} has no parameter {name!r}")
    for unit in filter(None, (panel.unit, *panel.units.values())):
        if unit not in UNITS:
            raise _panel_error(panel.name, f"there is no unit {unit!r}: the units are {', '.join(UNITS)}")
    if panel.chart not in TABLES and not panel.counts:
        raise _panel_error(panel.name, "counts is missing: a chart shows the counts of each point")
    if panel.chart == "band" and (len(panel.y) != BAND or panel.series):
        raise _panel_error(panel.name, f"a band has {BAND} columns y, of one series")
    if panel.series and len(panel.y) != 1:
        raise _panel_error(panel.name, "with series there is one column y")
    if panel.reference and not (PUBLISHED / f"{panel.reference.file}.csv").is_file():
        raise _panel_error(panel.name, f"there is no file {panel.reference.file}.csv in reports/published")
    for _, part, _, _ in Formatter().parse(panel.command):
        if part is not None and part not in named_query.columns and part not in known:
            raise _panel_error(panel.name, f"command: the query {panel.query} has no column {part!r}")


def _panel_error(name: str, message: str) -> UsageError:
    return UsageError(f"schemas/panels/{name}.yaml: {message}")
