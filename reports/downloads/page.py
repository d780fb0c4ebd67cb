"""Writes the page about a run's downloads: the ANRW paper's tables and figures, beside the published ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from firstflight.system import files
from reports.downloads import figures, option_survey, published, tables
from reports.downloads.figures import MBIT, MS, Panel
from reports.page import html, provenance
from reports.question import Answer, ask
from store import Store

NAME = "downloads.html"
TITLES = {
    "1": "Throughput and round-trip time of each vantage point",
    "2": "Throughput of each option set",
    "3": "Throughput from each CDN",
    "3n": "Throughput from each CDN, mean of each name",
}
COLUMNS = ["", "", "", *(f"{level:.0%}" for level in published.LEVELS), "samples", "names", "limited"]


@dataclass(frozen=True)
class Content:
    """The content of a page about one run's downloads, from the store only."""

    provenance: provenance.Provenance
    run_answer: Answer
    values: list[tables.Value]
    survey: list[tables.Value]
    curves: Answer
    outcomes: Answer
    sizes: Answer


def collect(store: Store, run: str) -> Content:
    """Collect the content about `run` (an id, or `newest`). UsageError if it has no successful download."""
    run = tables.chosen(store, run)
    values = [*tables.collect(store, run), *tables.published()]
    about = ask(store, "run", run=run)
    return Content(
        provenance=provenance.read(run, about.rows),
        run_answer=about,
        values=values,
        survey=[*option_survey.collect(store, run), *option_survey.published()],
        curves=ask(store, "download_curves", run=run),
        outcomes=ask(store, "download_outcomes", run=run),
        sizes=ask(store, "download_sizes", run=run),
    )


def write(gathered: Content, folder: Path) -> Path:
    """Write the page to `folder`/downloads.html and return its path. Equal rows give equal bytes.

    FirstflightError: the file cannot be written.
    """
    path = folder / NAME
    files.write_text(path, render(gathered))
    return path


def render(gathered: Content) -> str:
    """Return the page as HTML."""
    rows, cities = gathered.curves.rows, gathered.provenance.cities
    drawn: dict[str, html.Drawn] = {}
    for figure, title in TITLES.items():
        panels = figures.figure1(rows, cities) if figure == "1" else figures.of_vantages(rows, figure, cities)
        if any(panel.curves for panel in panels):
            drawn[figure] = _drawn(figure, title, panels, gathered.curves)
    return html.render(
        "downloads.html",
        page=gathered,
        run=gathered.provenance,
        titles=TITLES,
        figures=drawn,
        grids={table: tables.grid(table, gathered.values) for table in tables.TABLES},
        captions=tables.TABLES,
        survey=option_survey.grid(gathered.survey),
        survey_caption=option_survey.TITLE,
        has_survey=any(one.edition == tables.OURS for one in gathered.survey),
        columns=COLUMNS,
        numbers={figure: numbers(figure, rows, cities) for figure in TITLES},
        undrawn={figure: _undrawn(figure, rows, cities) for figure in TITLES},
    )


def _drawn(figure: str, title: str, panels: Sequence[Panel], answer: Answer) -> html.Drawn:
    name = f"figure{figure}"
    draw = partial(figures.draw, panels, name=name, title=title, description=figures.described(panels))
    data = [row for row in answer.rows if _figure_of(row["figure"]) == figure]
    return html.drawn(name, draw, data, curves=answer)


def _figure_of(part: str) -> str:
    """Return the figure that has this part: `1` for `1a` and `1b`."""
    return "1" if part in ("1a", "1b") else part


def _undrawn(figure: str, rows: Sequence[Mapping[str, Any]], cities: Mapping[str, str]) -> list[str]:
    panels = figures.figure1(rows, cities) if figure == "1" else figures.of_vantages(rows, figure, cities)
    labels = {curve.label for panel in panels for curve in panel.curves}
    return sorted(labels - set(figures.looks(panels)))


def numbers(
    figure: str, rows: Sequence[Mapping[str, Any]], cities: Mapping[str, str]
) -> list[tuple[str, list[list[str]]]]:
    """Return a figure in numbers: of each part its unit and its lines, ours first, then each edition's.

    A line has edition, vantage point, curve, the quantiles at published.LEVELS in that unit, and our counts.
    """
    found = []
    for part in ("1a", "1b") if figure == "1" else (figure,):
        unit = MS if part == "1b" else MBIT
        lines = [
            [
                tables.EDITIONS[tables.OURS],
                cities.get(row["vantage"], row["vantage"]),
                row["curve"],
                *(_number(value / unit.divisor if row["samples"] else None) for value in row["quantiles"]),
                *(f"{row[name]:,}" for name in ("samples", "names", "limited")),
            ]
            for row in rows
            if row["figure"] == part
        ]
        # The paper does not say whether its Figure 3 is of downloads or of means: it stands beside both.
        lines += [
            [tables.EDITIONS[one.edition], one.vantage, one.curve, *map(_number, one.values), "", "", ""]
            for one in sorted(published.quantiles(), key=lambda one: list(tables.EDITIONS).index(one.edition))
            if one.figure == part.removesuffix("n")
        ]
        found.append((unit.axis, lines))
    return found


def _number(value: float | None) -> str:
    """Return a value with three significant digits; a dash for None or nothing to count."""
    if value is None or value != value:
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
