"""Writes the tables in docs/reference that come from code: `python -m deploy.docs.reference_tables`.

A table is between `<!-- table: NAME -->` and `<!-- end -->`. `TABLES` has the function for each name.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from deploy.docs import marked_tables, settings
from firstflight.layout import RunLayout, StageKey
from orchestration.site.ceilings import Ceilings
from orchestration.stages import STAGES, Scope

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reference"
KIND = "table"


def main() -> int:
    """Write the tables of all pages, and print the paths of changed pages."""
    marked_tables.write(pages(), lambda _, text: with_tables(text))
    return 0


def pages() -> list[Path]:
    """Return the pages with such tables."""
    return marked_tables.pages(FOLDER, KIND)


def with_tables(text: str) -> str:
    """Return a page's text with its tables written again. KeyError for a name that `TABLES` lacks."""
    return marked_tables.replaced(text, KIND, lambda name: "\n".join(TABLES[name]()))


def _record_files() -> Iterator[str]:
    """Yield the lines of the table of record files: the path below the run's folder, and the columns."""
    layout = RunLayout(Path("RUN"))
    yield "| stage | record file | columns |\n| --- | --- | --- |"
    for stage in STAGES:
        key = StageKey("RUN", "VANTAGE", 1) if stage.scope is Scope.KEY else None
        for kind in stage.kinds:
            path = layout.targets if kind == "target" else layout.record_file(stage.name, kind, key)
            shown = path.relative_to("RUN").as_posix().replace("VANTAGE/1/", "VANTAGE/REP/")
            yield settings.row(f"`{stage.name}`", f"`{shown}`", f"[{kind}](../schema.md#{kind})")


TABLES: dict[str, Callable[[], Iterator[str]]] = {
    "ceilings": lambda: settings.rows(Ceilings),
    "record-files": _record_files,
}

if __name__ == "__main__":
    sys.exit(main())
