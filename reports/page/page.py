"""Writes the report page: one HTML file that needs no server, network or script."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from datetime import date
from pathlib import Path

from firstflight.errors import UsageError
from firstflight.system import files
from reports.chosen_run import Choice
from reports.figures import first_pto, pto, style
from reports.figures.plan import PartWithFigures
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
    """Draw the figures of all parts of the content, in its order."""
    looks = _cdn_looks(gathered)
    parts = [getattr(gathered, field.name) for field in fields(gathered)]
    plans = [plan for part in parts if isinstance(part, PartWithFigures) for plan in part.figures(looks)]
    return {
        plan.name: html.draw_figure(
            plan.name,
            plan.draw,
            plan.data,
            title=plan.title,
            source=plan.source,
            description=plan.description,
            **plan.questions,
        )
        for plan in plans
    }
