"""Fills the templates of the dashboard's pages."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from firstflight.run.provenance import tool_version
from firstflight.system.terminal import lines

_TEMPLATES = Path(__file__).parent / "templates"
_REPORT = Path(__file__).parent.parent / "page" / "templates" / "page.css"


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=shown,
    )
    environment.globals["made_by"] = tool_version()
    return environment


def render(template: str, **values: Any) -> str:
    """Return a template of `templates/` as HTML."""
    return _environment().get_template(template).render(**values)


@cache
def sheet() -> str:
    """Return the style sheet: the report's, and what only the dashboard needs."""
    return "\n".join(path.read_text(encoding="utf-8") for path in (_REPORT, _TEMPLATES / "dashboard.css"))


def shown(value: Any) -> Any:
    """Return a value as a cell shows it: null as n/a, lists as JSON, no marks of text direction."""
    if value is None:
        return "n/a"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | dict):
        return lines(json.dumps(value, ensure_ascii=False))
    # Six significant digits; CSV and Parquet have all of them.
    if isinstance(value, float):
        return f"{value:.6g}"
    return lines(value) if type(value) is str else value
