"""Writes the page about a run's downloads: the ANRW paper's tables and figures, with published values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from firstflight.system import files
from reports.downloads import figures, option_survey, published, size_figure, tables
from reports.downloads.figures import MBIT, MS, DownloadPanel
from reports.page import html, provenance
from reports.question import QueryAnswer, ask
from store import Store

NAME = "downloads.html"
TITLES = {
    "1": "Throughput and round-trip time of each vantage point",
    "2": "Throughput of each option set",
    "3": "Throughput from each CDN",
    "3n": "Throughput from each CDN, mean of each name",
}
"""Figure of the paper (3n: over means of names) -> the title."""
FILES = {
    "1": "throughput-and-rtt",
    "2": "throughput-by-set",
    "3": "throughput-by-cdn",
    "3n": "throughput-by-cdn-means",
    "sizes": "throughput-by-size",
}
"""Figure -> its identifier on the page, which is also the base name of the files."""
HEADINGS = {"1": "Names with a download", "2": "Sets compared"}
"""Table of the paper -> the heading on the page."""
BY_SIZE = "Throughput by size of the file"
COLUMNS = ["", "", "", *(f"{level:.0%}" for level in published.LEVELS), "samples", "names", "limited"]


@dataclass(frozen=True)
class DownloadsContent:
    """The content of a page about one run's downloads, from the store only."""

    provenance: provenance.RunProvenance
    run_answer: QueryAnswer
    values: list[tables.Value]
    survey: list[tables.Value]
    curves: QueryAnswer
    outcomes: QueryAnswer
    sizes: QueryAnswer


def collect(store: Store, run: str) -> DownloadsContent:
    """Collect the content about the run with the id `run`. UsageError if it has no successful download."""
    values = [*tables.collect(store, run), *tables.published()]
    about = ask(store, "run", run=run)
    return DownloadsContent(
        provenance=provenance.read(run, about.rows),
        run_answer=about,
        values=values,
        survey=[*option_survey.collect(store, run), *option_survey.published()],
        curves=ask(store, "download_curves", run=run),
        outcomes=ask(store, "download_outcomes", run=run),
        sizes=ask(store, "download_sizes", run=run),
    )


def write(gathered: DownloadsContent, folder: Path, figures: Path | None = None) -> Path:
    """Write the page to `folder`/downloads.html and return the path. Equal rows give equal bytes.

    `figures`: a folder for the figures and their data as files, to which the page links. FirstflightError: a
    file cannot be written.
    """
    path, drawn = folder / NAME, _figures(gathered)
    if figures is not None:
        html.write_figures(drawn.values(), figures)
    files.write_text(path, render(gathered, drawn, html.address(figures, folder)))
    return path


def write_figures(gathered: DownloadsContent, folder: Path) -> list[Path]:
    """Write the figures and their data as files to `folder` and return the paths; errors as `write`."""
    return html.write_figures(_figures(gathered).values(), folder)


def _figures(gathered: DownloadsContent) -> dict[str, html.PageFigure]:
    """Return the figures in reading order, by the keys of FILES."""
    rows, cities = gathered.curves.rows, gathered.provenance.cities
    drawn: dict[str, html.PageFigure] = {}
    for figure, title in TITLES.items():
        panels = figures.figure1(rows, cities) if figure == "1" else figures.of_vantages(rows, figure, cities)
        if any(panel.curves for panel in panels):
            drawn[figure] = _drawn(figure, title, panels, gathered.curves)
    sizes = gathered.sizes
    if any(row["downloads"] for row in sizes.rows):
        drawn["sizes"] = html.draw_figure(
            FILES["sizes"],
            partial(size_figure.draw, sizes.rows, cities),
            sizes.rows,
            title=BY_SIZE,
            description=size_figure.described(sizes.rows, cities),
            sizes=sizes,
        )
    return drawn


def render(
    gathered: DownloadsContent, drawn: Mapping[str, html.PageFigure] | None = None, figures_at: str = ""
) -> str:
    """Return the page as HTML.

    `drawn`: the figures, if they are already drawn. `figures_at`: the address of their folder, or empty.
    """
    rows, cities = gathered.curves.rows, gathered.provenance.cities
    sets = {row["of_set"] for row in gathered.sizes.rows if row["downloads"]}
    return html.render(
        "downloads.html",
        page=gathered,
        run=gathered.provenance,
        titles=TITLES,
        names=FILES,
        by_size=BY_SIZE,
        figures=_figures(gathered) if drawn is None else drawn,
        figures_at=figures_at,
        grids={table: tables.grid(table, gathered.values) for table in tables.TABLES},
        captions=tables.TABLES,
        headings=HEADINGS,
        survey=option_survey.grid(gathered.survey),
        survey_caption=option_survey.TITLE,
        has_published=any(value.edition != tables.OURS for value in gathered.values),
        has_survey=any(value.edition == tables.OURS for value in gathered.survey),
        columns=COLUMNS,
        numbers={figure: numbers(figure, rows, cities) for figure in TITLES},
        undrawn={figure: _labels_not_drawn(figure, rows, cities) for figure in TITLES}
        | {"sizes": sorted(sets - set(size_figure.looks(gathered.sizes.rows)))},
    )


def _drawn(figure: str, title: str, panels: Sequence[DownloadPanel], answer: QueryAnswer) -> html.PageFigure:
    return html.draw_figure(
        FILES[figure],
        partial(figures.draw, panels),
        [row for row in answer.rows if _figure_of(row["figure"]) == figure],
        title=title,
        source=f"Figure {figure.removesuffix('n')}",
        description=figures.described(panels),
        curves=answer,
    )


def _figure_of(part: str) -> str:
    """Return the figure that has this part: `1` for `1a` and `1b`."""
    return "1" if part in ("1a", "1b") else part


def _labels_not_drawn(figure: str, rows: Sequence[Mapping[str, Any]], cities: Mapping[str, str]) -> list[str]:
    panels = figures.figure1(rows, cities) if figure == "1" else figures.of_vantages(rows, figure, cities)
    labels = {curve.label for panel in panels for curve in panel.curves}
    return sorted(labels - set(figures.looks(panels)))


def numbers(
    figure: str, rows: Sequence[Mapping[str, Any]], cities: Mapping[str, str]
) -> list[tuple[str, list[list[str]]]]:
    """Return a figure in numbers: for each part the unit and the lines, ours first, then each edition's.

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
        # The paper does not say whether its Figure 3 shows downloads or means, so it is listed with both.
        lines += [
            [
                tables.EDITIONS[quantile.edition],
                quantile.vantage,
                quantile.curve,
                *map(_number, quantile.values),
                "",
                "",
                "",
            ]
            for quantile in sorted(
                published.quantiles(), key=lambda quantile: list(tables.EDITIONS).index(quantile.edition)
            )
            if quantile.figure == part.removesuffix("n")
        ]
        found.append((unit.axis, lines))
    return found


def _number(value: float | None) -> str:
    """Return a value with three significant digits; a dash if it is missing."""
    if value is None or value != value:
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
