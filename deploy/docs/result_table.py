"""Tables of results as Markdown, from definitions and the lines of kept results."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from firstflight.errors import InputError

NOTHING = "-"
Line = Mapping[str, Any]
_FIELD = re.compile(r"\{([\w.]+)(?:/(\d+))?(?::([^}]*))?\}")
_OPTIONAL = re.compile(r"\[([^\]]*)\]")
_NUMBER = re.compile(r"(\d[\d,]*(?:\.\d+)?)")


class Table(BaseModel):
    """A table: a row for each group of lines that have the same `rows`.

    A format is a text with `{field}`, `{field:.1f}` or `{field/1000:.1f}` (divided by 1000). A part in
    brackets [] is left out if one of its fields is null. The cell is `-` if another field is null. A cell for
    several lines has all values, or one value if they are equal.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    of: str = Field(description="The result: docs/results/OF.json.")
    where: dict[str, list[Any]] = Field(default={}, description="Only lines with one of these values.")
    known: tuple[str, ...] = Field(default=(), description="Only lines in which these fields are not null.")
    sort: tuple[str, ...] = Field(default=(), description="Fields that sort the rows; default: as kept.")
    rows: dict[str, str] = Field(description="First columns: title and format.")
    across: str = Field(default="", description="Format of the titles of further columns.")
    cell: str = Field(default="", description="Format of the cells in these columns.")
    columns: dict[str, str] = Field(default={}, description="Last columns: title and format.")
    add: tuple[str, ...] = Field(
        default=(), description="Fields added up over lines that are equal otherwise."
    )

    def fields(self) -> list[str]:
        """Return the fields in all formats."""
        formats = [*self.rows.values(), self.across, self.cell, *self.columns.values()]
        return list(dict.fromkeys(match[1] for text in formats for match in _FIELD.finditer(text)))


def markdown(table: Table, kept: Sequence[Line]) -> str:
    """Return the table of a result's lines. InputError if a format names a field that no line has."""
    lines = [
        line
        for line in kept
        if all(_value(line, name) in given for name, given in table.where.items())
        and all(_value(line, name) is not None for name in table.known)
    ]
    for name in (*table.known, *table.fields(), *table.sort):
        if not any(_has(line, name) for line in lines):
            raise InputError(f"no line has the field {name}: correct it in tables.toml")
    lines = _added(table, lines)
    titles = sorted({_text(table.across, line) for line in lines}, key=_natural) if table.across else []
    groups: dict[tuple[str, ...], list[Line]] = {}
    for line in sorted(lines, key=lambda line: [_natural(str(_value(line, name))) for name in table.sort]):
        groups.setdefault(tuple(_text(text, line) for text in table.rows.values()), []).append(line)
    heading = [*table.rows, *titles, *table.columns]
    rows = [heading, ["---"] * len(heading)]
    for first, group in groups.items():
        across = [[line for line in group if _text(table.across, line) == title] for title in titles]
        cells = [_joined(_text(table.cell, line) for line in cell_lines) for cell_lines in across]
        for text in table.columns.values():
            cells.append(_joined(value for line in group if (value := _text(text, line)) != NOTHING))
        rows.append([*first, *cells])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _added(table: Table, lines: Sequence[Line]) -> list[Line]:
    """Return lines with the fields in `add` added up."""
    if not table.add:
        return list(lines)
    sums: dict[str, dict[str, Any]] = {}
    for line in lines:
        key = repr([_value(line, name) for name in table.fields() if name not in table.add])
        found = sums.setdefault(key, {**line, **dict.fromkeys(table.add, 0)})
        found.update({name: found[name] + line[name] for name in table.add})
    return list(sums.values())


def _joined(values: Iterable[str]) -> str:
    listed = list(values)
    return "; ".join(listed[:1] if len(set(listed)) == 1 else listed) or NOTHING


def _natural(text: str) -> list[str | float]:
    """Return a sort key that orders the numbers in a text by value."""
    parts = _NUMBER.split(text)
    return [float(part.replace(",", "")) if place % 2 else part for place, part in enumerate(parts)]


def _text(text: str, line: Line) -> str:
    """Return a format with a line's values."""
    required = _OPTIONAL.sub(lambda match: _filled(match[1], line) or "", text)
    return _filled(required, line) or NOTHING


def _filled(text: str, line: Line) -> str | None:
    """Return a text with its fields replaced; `None` if one of them is null."""
    if any(_value(line, match[1]) is None for match in _FIELD.finditer(text)):
        return None
    return _FIELD.sub(lambda match: _number(_value(line, match[1]), match[2], match[3] or ""), text)


def _number(value: Any, divisor: str | None, spec: str) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    # z: a rounded zero has no sign.
    return format(value / int(divisor) if divisor else value, f"z{spec}" if spec.endswith("f") else spec)


def _has(line: Line, name: str) -> bool:
    """Return whether a line has a field, which may be null."""
    parent, _, last = name.rpartition(".")
    holder = _value(line, parent) if parent else line
    return isinstance(holder, Mapping) and last in holder


def _value(line: Line, name: str) -> Any:
    value: Any = line
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value
