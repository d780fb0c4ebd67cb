"""Writes the report page: one HTML file that needs no server, network or script."""

from __future__ import annotations

import csv
import io
import json
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2
from markupsafe import Markup

from firstflight.errors import UsageError
from firstflight.run.provenance import tool_version
from firstflight.system import files
from firstflight.system.terminal import lines
from reports import wording
from reports.figures import ack_delay, delay, first_pto, pto, style
from reports.numbers import bootstrap
from reports.page import alt, content
from reports.page.content import Content
from reports.question import Answer
from store import Store
from store.errors import UNKNOWN_TABLE, StoreError

NAME = "index.html"
_TEMPLATES = Path(__file__).parent / "templates"

Drawing = Callable[..., str]
"""Draws a figure in a `size`."""


@dataclass(frozen=True)
class Drawn:
    """A figure on the page, in two widths of which one is shown, with its data and queries."""

    name: str
    wide: Markup
    narrow: Markup
    data: list[dict[str, Any]]
    questions: tuple[tuple[str, Answer], ...]

    @property
    def csv(self) -> str:
        """The data as CSV, in a data: URL."""
        return "data:text/csv;charset=utf-8," + quote(_csv(self.data))


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
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_shown,
    )
    for name in ("count", "percent", "interval", "ms", "median", "middle_half", "plain", "listed"):
        environment.filters[name] = getattr(wording, name)
    environment.globals["share"] = wording.share
    sheet = (_TEMPLATES / "page.css").read_text(encoding="utf-8")
    template = environment.get_template("empty.html" if gathered is None else "page.html")
    return template.render(
        sheet=Markup(sheet),
        sheet_hash=b64encode(sha256(sheet.encode()).digest()).decode(),
        made_by=tool_version(),
        page=gathered,
        **({} if gathered is None else _drawn(gathered)),
    )


def _shown(value: Any) -> Any:
    """Remove marks of text direction from a value, because they would move adjacent text."""
    return lines(value) if type(value) is str else value


def _drawn(gathered: Content) -> dict[str, Any]:
    looks = style.looks((row["cdn"], row["iack"] + row["coalesced"]) for row in gathered.outcomes.rows)
    answered = [row["cdn"] for row in gathered.outcomes.rows if row["iack"] + row["coalesced"]]
    figures: dict[str, Drawn] = {}

    def add(name: str, draw: Drawing, data: list[dict[str, Any]], **questions: Answer) -> None:
        wide, narrow = (Markup(draw(size=size)) for size in style.SIZES)
        figures[name] = Drawn(name, wide, narrow, data, tuple(questions.items()))

    for name, delays in (("figure8", gathered.figure8), ("figure14", gathered.figure14)):
        if delays is not None and any(panel.curves for panel in delays.panels):
            title, text = "Delay from ACK to ServerHello", alt.delays(delays.panels)
            draw: Drawing = partial(
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
    }


def _csv(rows: Sequence[dict[str, Any]]) -> str:
    """Return rows as CSV with a header; arrays are JSON."""
    out = io.StringIO()
    if rows:
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(
            {key: json.dumps(value) if isinstance(value, list) else value for key, value in row.items()}
            for row in rows
        )
    return out.getvalue()
