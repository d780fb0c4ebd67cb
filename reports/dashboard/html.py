"""Fills the templates of the dashboard's pages."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from firstflight.run.provenance import tool_version
from firstflight.system.terminal import lines

_INSTANT = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+")
_TEMPLATES = Path(__file__).parent / "templates"
STATIC = Path(__file__).parent / "static"
_REPORT = Path(__file__).parent.parent / "page" / "templates" / "page.css"


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=cell_text,
    )
    environment.globals["made_by"] = tool_version()
    return environment


def render(template: str, **values: Any) -> str:
    """Return a template of `templates/` as HTML."""
    values.setdefault("here", "")
    return _environment().get_template(template).render(**values)


@cache
def sheet() -> str:
    """Return the style sheet: the report's, and additions for the dashboard."""
    return "\n".join(path.read_text(encoding="utf-8") for path in (_REPORT, _TEMPLATES / "dashboard.css"))


def cell_text(value: Any) -> Any:
    """Return a value as text for a cell: null as n/a, lists as JSON, without marks of text direction."""
    if value is None:
        return "n/a"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | dict):
        return lines(json.dumps(value, ensure_ascii=False))
    # Six significant digits; CSV and Parquet have all digits.
    if isinstance(value, float):
        return f"{value:.6g}"
    return lines(value) if type(value) is str else value


def plain(text: str) -> str:
    """Return a text from the store without line breaks and marks of text direction."""
    return str(lines(text))


def count_text(number: Any) -> str:
    """Return a count with separators of thousands; null as n/a."""
    return "n/a" if number is None else f"{int(number):,}"


def value_with_unit(value: Any, unit: str) -> str:
    """Return a value with the unit for display: shares in percent, microseconds in milliseconds."""
    if value is None:
        return "n/a"
    if unit == "share":
        return f"{100 * float(value):.1f} %"
    if unit == "us":
        return f"{float(value) / 1000:,.2f} ms"
    if unit == "bps":
        return f"{float(value) / 1e6:,.1f} Mbit/s"
    if isinstance(value, int) and not isinstance(value, bool):
        return count_text(value)
    if isinstance(value, str) and _INSTANT.fullmatch(value):
        return value[:19]
    return str(cell_text(value))
