"""Published values from a paper, printed and drawn next to ours: a file per paper in reports/published.

FIRSTFLIGHT_PUBLISHED=hide hides them everywhere.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from firstflight.errors import UsageError

FOLDER = Path(__file__).parent / "published"
SWITCH = "FIRSTFLIGHT_PUBLISHED"
_SHOW, _HIDE = "show", "hide"


def are_shown() -> bool:
    """Return whether published values are to be shown. UsageError if SWITCH has another value."""
    given = os.environ.get(SWITCH) or _SHOW
    if given not in (_SHOW, _HIDE):
        raise UsageError(f"{SWITCH} is {given!r}: set it to {_SHOW} or {_HIDE}")
    return given == _SHOW


def imc2024(part: str, column: str) -> dict[str, float]:
    """Return a column in a part of the IMC 2024 paper's values by row; empty if they are hidden.

    reports/published/README.md lists parts and columns. UsageError as `are_shown`.
    """
    return column_of("imc2024", part, column) if are_shown() else {}


def parts(requested: Mapping[str, Sequence[str]]) -> dict[str, dict[str, dict[str, float]]]:
    """Return columns of parts of the IMC 2024 paper's values by row; empty if they are hidden."""
    if not are_shown():
        return {}
    return {part: {name: imc2024(part, name) for name in columns} for part, columns in requested.items()}


@cache
def column_of(name: str, part: str, column: str) -> dict[str, float]:
    """Return a column's values in a part of the file NAME.csv, by row."""
    with (FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return {
            line["row"]: float(line["value"])
            for line in csv.DictReader(file)
            if (line["part"], line["column"]) == (part, column)
        }
