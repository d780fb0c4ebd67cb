"""Writes the report page: one HTML file that needs no server, network or script."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from firstflight.errors import UsageError
from firstflight.system import files
from reports.chosen_run import Choice
from reports.figures import ack_delay, delay, first_pto, pto, style
from reports.numbers import bootstrap
from reports.page import content, handshakes, html
from reports.page.content import Content
from store import Store
from store.errors import UNKNOWN_TABLE, StoreError

NAME = "index.html"


def collect(
    store: Store, run: str | None = None, vantage: str | None = None, day: date | None = None
) -> Content | None:
    """Collect the content of the page about `run` (`None`: the newest); `None` for a store without runs.

    UsageError if the store lacks tables, or has no data for that run, vantage point and day.
    """
    try:
        choice = Choice(run) if run else content.newest(store)
        return content.collect(store, choice.run, vantage, day) if choice else None
    except StoreError as error:
        if error.code == UNKNOWN_TABLE:
            raise UsageError(
                f"the store in {store.location} lacks tables of the page: run `firstflight db migrate`"
            ) from error
        raise


def write(gathered: Content | None, folder: Path, figures: Path | None = None) -> Path:
    """Write the page to `folder`/index.html and return its path. Equal rows give equal bytes.

    `figures`: a folder for the figures and their data as files, to which the page links. FirstflightError: a
    file cannot be written.
    """
    drawn = {} if gathered is None else _figures(gathered)
    if figures is not None:
        html.write_figures(drawn.values(), figures)
    files.write_text(folder / NAME, render(gathered, drawn, html.address(figures, folder)))
    return folder / NAME


def write_figures(gathered: Content | None, folder: Path) -> list[Path]:
    """Write the figures and their data as files to `folder` and return the paths; errors as `write`."""
    return [] if gathered is None else html.write_figures(_figures(gathered).values(), folder)


def render(
    gathered: Content | None, drawn: Mapping[str, html.PageFigure] | None = None, figures_at: str = ""
) -> str:
    """Return the page as HTML. Without `gathered`, the page for a store without runs.

    `drawn`: the figures, if they are already drawn. `figures_at`: the address of their folder, or empty.
    """
    if gathered is None:
        return html.render("empty.html")
    looks = _cdn_looks(gathered)
    answered = [row["cdn"] for row in gathered.outcomes.rows if row["iack"] + row["coalesced"]]
    return html.render(
        "page.html",
        page=gathered,
        figures=_figures(gathered) if drawn is None else drawn,
        figures_at=figures_at,
        undrawn=[cdn for cdn in answered if cdn not in looks],
        level=bootstrap.LEVEL,
        pto_samples=pto.SAMPLES,
        deltas_ms=first_pto.DELTAS_MS,
        most_rows=handshakes.MOST,
    )


def _cdn_looks(gathered: Content) -> dict[str, style.Look]:
    return style.looks((row["cdn"], row["iack"] + row["coalesced"]) for row in gathered.outcomes.rows)


def _figures(gathered: Content) -> dict[str, html.PageFigure]:
    """Return a dict of figures, in reading order."""
    looks = _cdn_looks(gathered)
    figures: dict[str, html.PageFigure] = {}

    def add(name: str, draw: html.Drawing, data: list[dict[str, Any]], **about: Any) -> None:
        figures[name] = html.draw_figure(name, draw, data, **about)

    for name, where, number, delays in (
        ("delay-one-vantage", "one vantage point", 8, gathered.figure8),
        ("delay-all-vantages", "all vantage points", 14, gathered.figure14),
    ):
        if delays is not None and any(panel.curves for panel in delays.panels):
            add(
                name,
                partial(
                    delay.draw,
                    delays.panels,
                    looks,
                    published_ms=gathered.published.get("delay", {}).get("ack_to_sh_ms"),
                ),
                delays.curves.rows,
                title=f"Delay from ACK to ServerHello, {where}",
                source=f"Figure {number}",
                description=delay.describe(delays.panels),
                curves=delays.curves,
                numbers=delays.numbers,
            )
    differences = gathered.figure10
    for way, panels in differences.panels.items():
        if any(panels.values()):
            add(
                f"ack-delay-{way}",
                partial(ack_delay.draw, panels, way, looks),
                [row for row in differences.curves.rows if row["way"] == way],
                title=f"{ack_delay.MEASURED[way]} minus the reported ACK Delay",
                source="Figure 10",
                description=ack_delay.describe(panels),
                curves=differences.curves,
                numbers=differences.numbers,
            )
    points, answer = gathered.figure4.points, gathered.figure4.answer
    add(
        "pto-samples",
        partial(pto.draw, gathered.figure2),
        pto.rows(gathered.figure2),
        title="Probe timeout after each RTT sample",
        source="Figure 2",
        description=pto.describe(gathered.figure2),
        medians=answer,
    )
    add(
        "first-pto-gain",
        partial(first_pto.draw, points, looks),
        answer.rows,
        title="How much earlier the first probe timeout expires",
        source="Figure 4",
        description=first_pto.describe(points),
        points=answer,
    )
    return figures
