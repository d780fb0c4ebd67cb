"""Fills the templates of pages: one HTML file each, that needs no server, network or script."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2
from markupsafe import Markup

from firstflight.run.provenance import tool_version
from firstflight.system import spreadsheet
from firstflight.system.terminal import lines
from reports import wording
from reports.figures import style
from reports.question import Answer

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
        return csv_url(self.data)


def drawn(name: str, draw: Drawing, data: list[dict[str, Any]], **questions: Answer) -> Drawn:
    """Draw a figure in both widths; `questions`: its answers, by what their SQL is called on the page."""
    wide, narrow = (Markup(draw(size=size)) for size in style.SIZES)
    return Drawn(name, wide, narrow, data, tuple(questions.items()))


def csv_url(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as CSV with a header, in a data: URL; a field that a row does not have is empty."""
    return "data:text/csv;charset=utf-8," + quote(_csv(rows))


def render(template: str, **values: Any) -> str:
    """Return a template of `templates/` as HTML, with the style sheet and filters that all pages have."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_shown,
    )
    for name in ("count", "percent", "ratio", "interval", "ms", "median", "middle_half", "plain", "listed"):
        environment.filters[name] = getattr(wording, name)
    environment.filters["whole"] = wording.plain_lines
    environment.globals["share"] = wording.share
    sheet = (_TEMPLATES / "page.css").read_text(encoding="utf-8")
    return environment.get_template(template).render(
        sheet=Markup(sheet),
        sheet_hash=b64encode(sha256(sheet.encode()).digest()).decode(),
        made_by=tool_version(),
        **values,
    )


def _shown(value: Any) -> Any:
    """Remove marks of text direction from a value, because they would move adjacent text."""
    return lines(value) if type(value) is str else value


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as CSV with a header; arrays are JSON, and no text is a formula."""
    if not rows:
        return ""
    names = dict.fromkeys(name for row in rows for name in row)
    made = ({key: json.dumps(v) if isinstance(v, list) else v for key, v in row.items()} for row in rows)
    return spreadsheet.table(names, made)
