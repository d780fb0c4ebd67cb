"""Fills the templates of pages. Each page is a single HTML file that needs no server, network or script."""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2
from markupsafe import Markup
from matplotlib.figure import Figure

from firstflight.run.provenance import tool_version
from firstflight.system import files, spreadsheet
from firstflight.system.terminal import lines
from reports import wording
from reports.figures import style, svg
from reports.question import QueryAnswer

_TEMPLATES = Path(__file__).parent / "templates"

Drawing = Callable[..., Figure]
"""Draws a figure in a `size`."""


@dataclass(frozen=True)
class PageFigure:
    """A figure on the page in two widths (one is visible), with its data and queries.

    `name`: the identifier, and the base name of the files; `source`: the figure in a paper, or empty.
    """

    name: str
    title: str
    source: str
    draw: Drawing
    wide: Markup
    narrow: Markup
    data: list[dict[str, Any]]
    questions: tuple[tuple[str, QueryAnswer], ...]

    @property
    def csv(self) -> str:
        """The data as CSV, in a data: URL."""
        return csv_url(self.data)

    def write(self, folder: Path) -> list[Path]:
        """Write the wide figure in all formats, and its data as CSV, to `folder`; return the paths.

        FirstflightError if a file cannot be written.
        """
        contents = {kind: svg.content(self.draw(size=style.WIDE), kind, self.name) for kind in svg.FORMATS}
        contents["csv"] = csv(self.data).encode()
        for ending, content in contents.items():
            with files.replacing(folder / f"{self.name}.{ending}") as part:
                part.write_bytes(content)
        return [folder / f"{self.name}.{ending}" for ending in contents]


def draw_figure(
    name: str,
    draw: Drawing,
    data: list[dict[str, Any]],
    *,
    title: str,
    description: str,
    source: str = "",
    **questions: QueryAnswer,
) -> PageFigure:
    """Draw a figure in both widths; `questions`: its answers, by the name of their SQL on the page."""
    wide, narrow = (
        Markup(svg.inline(draw(size=size), f"{name}-{size.name}", title, description)) for size in style.SIZES
    )
    return PageFigure(name, title, source, draw, wide, narrow, data, tuple(questions.items()))


def write_figures(figures: Iterable[PageFigure], folder: Path) -> list[Path]:
    """Write figures and their data to `folder` and return the paths."""
    return [path for figure in figures for path in figure.write(folder)]


def address(folder: Path | None, page: Path) -> str:
    """Return the address of `folder`, relative to a page in the folder `page`; empty for `None`."""
    return "" if folder is None else quote(os.path.relpath(folder, page))


def csv_url(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as CSV with a header, in a data: URL; a field that a row does not have is empty."""
    return "data:text/csv;charset=utf-8," + quote(csv(rows))


def render(template: str, **values: Any) -> str:
    """Return a template of `templates/` as HTML, with the style sheet and filters that all pages have."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_without_marks,
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


def _without_marks(value: Any) -> Any:
    """Remove marks of text direction from a value, because they would move adjacent text."""
    return lines(value) if type(value) is str else value


def csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as CSV with a header; arrays are JSON, and no text is a formula."""
    if not rows:
        return ""
    names = dict.fromkeys(name for row in rows for name in row)
    lines = ({key: json.dumps(v) if isinstance(v, list) else v for key, v in row.items()} for row in rows)
    return spreadsheet.table(names, lines)
