"""Writes the report page: one HTML file that needs no server, network or script."""

from __future__ import annotations

from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from firstflight.errors import UsageError
from firstflight.system import files
from reports.figures import ack_delay, delay, first_pto, pto, style
from reports.numbers import bootstrap
from reports.page import alt, content, handshakes, html
from reports.page.content import Content
from reports.question import Answer
from store import Store
from store.errors import UNKNOWN_TABLE, StoreError

NAME = "index.html"


def collect(
    store: Store, run: str | None = None, vantage: str | None = None, day: date | None = None
) -> Content | None:
    """Collect the content of the page about `run` (None: the newest); None if the store has no run.

    UsageError: the store lacks tables, or has no data of that run, vantage point and day.
    """
    try:
        chosen = run or content.newest(store)
        return content.collect(store, chosen, vantage, day) if chosen else None
    except StoreError as error:
        if error.code == UNKNOWN_TABLE:
            raise UsageError(
                f"the store in {store.location} lacks tables of the page: run `firstflight db migrate`"
            ) from error
        raise


def write(gathered: Content | None, folder: Path) -> Path:
    """Write the page to `folder`/index.html and return its path. Equal rows give equal bytes.

    FirstflightError: the file cannot be written.
    """
    path = folder / NAME
    files.write_text(path, render(gathered))
    return path


def render(gathered: Content | None) -> str:
    """Return the page as HTML; None: the page for a store without runs."""
    if gathered is None:
        return html.render("empty.html")
    return html.render("page.html", page=gathered, **_drawn(gathered))


def _drawn(gathered: Content) -> dict[str, Any]:
    looks = style.looks((row["cdn"], row["iack"] + row["coalesced"]) for row in gathered.outcomes.rows)
    answered = [row["cdn"] for row in gathered.outcomes.rows if row["iack"] + row["coalesced"]]
    figures: dict[str, html.Drawn] = {}

    def add(name: str, draw: html.Drawing, data: list[dict[str, Any]], **questions: Answer) -> None:
        figures[name] = html.drawn(name, draw, data, **questions)

    for name, delays in (("figure8", gathered.figure8), ("figure14", gathered.figure14)):
        if delays is not None and any(panel.curves for panel in delays.panels):
            title, text = "Delay from ACK to ServerHello", alt.delays(delays.panels)
            draw: html.Drawing = partial(
                delay.draw, delays.panels, looks, name=name, title=title, description=text
            )
            add(name, draw, delays.curves.rows, curves=delays.curves, numbers=delays.numbers)
    differences = gathered.figure10
    for way, panels in differences.panels.items():
        if any(panels.values()):
            title, text = f"Delay minus ACK Delay, {way}", alt.differences(panels)
            draw = partial(ack_delay.draw, panels, way, looks, title=title, description=text)
            data = [row for row in differences.curves.rows if row["way"] == way]
            add(f"figure10-{way}", draw, data, curves=differences.curves, numbers=differences.numbers)
    points, answer = gathered.figure4.points, gathered.figure4.answer
    title, text = "First PTO improvement", alt.points(points)
    draw = partial(first_pto.draw, points, looks, title=title, description=text)
    add("figure4", draw, answer.rows, points=answer)
    title, text = "PTO evolution", alt.cases(gathered.figure2)
    draw = partial(pto.draw, gathered.figure2, title=title, description=text)
    add("figure2", draw, pto.rows(gathered.figure2), medians=answer)
    return {
        "figures": figures,
        "undrawn": [cdn for cdn in answered if cdn not in looks],
        "level": bootstrap.LEVEL,
        "pto_samples": pto.SAMPLES,
        "deltas_ms": first_pto.DELTAS_MS,
        "most_rows": handshakes.MOST,
    }
