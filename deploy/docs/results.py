"""Writes the tables of results in docs/ from docs/results: `python -m deploy.docs.results`.

A table is between `<!-- results: PAGE/NAME -->` and `<!-- end -->`. docs/results/tables.toml defines it as
`["PAGE/NAME"]` (result_table.py), and docs/results/RESULT.json has the values, as
`firstflight testbed show RESULT --format json` prints them, or `python -m bench NAME --result FILE` writes
them.
"""

from __future__ import annotations

import json
import posixpath
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deploy.docs import marked_tables, result_table
from deploy.docs.result_table import Table
from firstflight.errors import InputError

DOCS = Path(__file__).resolve().parents[2] / "docs"
KIND = "results"


def main() -> int:
    """Write the tables of all pages, and print the paths of changed pages. Return the exit status."""
    try:
        marked_tables.write(pages(), lambda path, text: with_tables(text, path.relative_to(DOCS).as_posix()))
    except InputError as error:
        sys.stderr.write(f"results: {error}\n")
        return 1
    return 0


def pages() -> list[Path]:
    """Return the pages with tables of results."""
    return marked_tables.pages(DOCS, KIND)


def tables(folder: Path = DOCS / "results") -> dict[str, Table]:
    """Return the tables in tables.toml by name."""
    found = tomllib.loads((folder / "tables.toml").read_text(encoding="utf-8"))
    return {name: Table.model_validate(table) for name, table in found.items()}


def with_tables(text: str, place: str, folder: Path = DOCS / "results") -> str:
    """Return a page's text with its tables written again; `place`: the page's path below docs/.

    InputError if tables.toml has no such table, or its result lacks a field.
    """
    known = tables(folder)

    def table(name: str) -> str:
        if name not in known:
            raise InputError(f"docs/{place}: tables.toml has no table {name}: add it, or correct the name")
        result = json.loads((folder / f"{known[name].of}.json").read_text(encoding="utf-8"))
        try:
            lines = result_table.markdown(known[name], result["lines"])
        except InputError as error:
            raise InputError(f"docs/results/{known[name].of}.json, table {name}: {error}") from None
        data = posixpath.relpath(f"results/{known[name].of}.json", posixpath.dirname(place) or ".")
        note = f"Data: [{known[name].of}]({data}), {_date(result)}."
        return f"{lines}\n{note}"

    return marked_tables.replaced(text, KIND, table)


def _date(result: Mapping[str, Any]) -> str:
    if not result.get("measured_on"):
        return "computed"
    machine = f":\n{result['machine']}" if result.get("machine") else ""
    return f"measured on {result['measured_on']}{machine}"


if __name__ == "__main__":
    sys.exit(main())
