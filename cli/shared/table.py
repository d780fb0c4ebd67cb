"""Lays out an answer as a table that fits the terminal.

Columns without values are omitted, names of columns break at underscores, and long texts wrap. If the columns
still need more than the terminal's width, each row is a block of lines, one per column. `wide` disables all
of this: every column, one line per row.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len, chop_cells

from firstflight.system.terminal import visible

# The engine's format that `table_text` reads: a line with names, a line with types, a line per row.
FORMAT = "JSONCompactEachRowWithNamesAndTypes"
_BETWEEN = "  "
# Texts wrap to this many characters before a row becomes a block.
_LEAST_TEXT = 16
_DECIMALS = 6


@dataclass
class _Column:
    name: str
    is_text: bool
    cells: list[str]

    def __post_init__(self) -> None:
        self.head = [self.name]
        self.width = max(cell_len(text) for text in (self.name, *self.cells))

    def narrow(self) -> None:
        """Break the name at underscores. The new width is the longest part of the name, or widest cell."""
        parts = [f"{part}_" for part in self.name.split("_")]
        parts[-1] = parts[-1][:-1]
        self.width = max(cell_len(text) for text in (*parts, *self.cells))
        self.head = [""]
        for part in parts:
            if cell_len(self.head[-1] + part) <= self.width:
                self.head[-1] += part
            else:
                self.head.append(part)

    def lines(self, cell: str) -> list[str]:
        """Return a cell as lines of the column's width."""
        return [self._padded(piece) for piece in _pieces(cell, self.width)]

    def _padded(self, piece: str) -> str:
        spaces = " " * (self.width - cell_len(piece))
        return piece + spaces if self.is_text else spaces + piece


def table_text(content: bytes, *, wide: bool = False, width: int | None = None) -> tuple[str, list[str]]:
    """Return the rows of an answer in FORMAT as a table, and the names of omitted columns.

    `width` in characters (`None`: the terminal's). An answer without rows gives an empty text.
    """
    names, types, *rows = (json.loads(line) for line in content.splitlines())
    if not rows:
        return "", []
    all_columns = [
        _Column(visible(name), _is_text(type_name), [_cell_text(row[number]) for row in rows])
        for number, (name, type_name) in enumerate(zip(names, types, strict=True))
    ]
    if wide:
        return _table(all_columns), []
    columns = [column for column in all_columns if any(column.cells)] or all_columns
    hidden = [column.name for column in all_columns if column not in columns]
    width = width or shutil.get_terminal_size().columns
    return (_table(columns) if _fit(columns, width) else _blocks(columns, width)), hidden


def _fit(columns: Sequence[_Column], width: int) -> bool:
    """Narrow the columns until a line has at most `width` characters; return whether they fit."""

    def excess() -> int:
        return sum(column.width for column in columns) + len(_BETWEEN) * (len(columns) - 1) - width

    for column in sorted(columns, key=lambda column: column.width, reverse=True):
        if excess() <= 0:
            return True
        column.narrow()
    texts = [column for column in columns if column.is_text]
    while (over := excess()) > 0:
        longest = max(texts, key=lambda column: column.width, default=None)
        if longest is None or longest.width <= _LEAST_TEXT:
            return False
        following = max(
            (column.width for column in texts if column.width < longest.width), default=_LEAST_TEXT
        )
        longest.width = max(longest.width - over, following - 1, _LEAST_TEXT)
        longest.head = [piece for part in longest.head for piece in chop_cells(part, longest.width)]
    return True


def _table(columns: Sequence[_Column]) -> str:
    most = max(len(column.head) for column in columns)
    heads = [[""] * (most - len(column.head)) + column.head for column in columns]
    lines = [
        _line([column.lines(head[number])[0] for column, head in zip(columns, heads, strict=True)])
        for number in range(most)
    ]
    lines.append(_line(["─" * column.width for column in columns]))
    for cells in zip(*(column.cells for column in columns), strict=True):
        wrapped = [column.lines(cell) for column, cell in zip(columns, cells, strict=True)]
        for number in range(max(map(len, wrapped))):
            lines.append(
                _line(
                    [
                        pieces[number] if number < len(pieces) else " " * column.width
                        for column, pieces in zip(columns, wrapped, strict=True)
                    ]
                )
            )
    return "".join(f"{line}\n" for line in lines)


def _blocks(columns: Sequence[_Column], width: int) -> str:
    """Return each row as lines `name  value`."""
    names = max(cell_len(column.name) for column in columns)
    room = max(width - names - len(_BETWEEN), 1)
    blocks = []
    for number in range(len(columns[0].cells)):
        lines = [f"─── row {number + 1} ".ljust(min(width, names + 20), "─")]
        for column in columns:
            pieces = _pieces(column.cells[number], room)
            lines.append(f"{column.name:{names}}{_BETWEEN}{pieces[0]}".rstrip())
            lines += [f"{'':{names}}{_BETWEEN}{piece}" for piece in pieces[1:]]
        blocks.append("".join(f"{line}\n" for line in lines))
    return "\n".join(blocks)


def _pieces(text: str, width: int) -> list[str]:
    """Return `text` as pieces of at most `width` cells, cut after a space if the second half has one."""
    pieces = []
    while cell_len(text) > width:
        start = text[: width + 1]
        # The first piece is empty if a character is wider than `width`. Text of no width has no piece.
        piece = next(filter(None, chop_cells(start, width)), start)
        space = piece.rfind(" ")
        if space >= width // 2:
            piece = piece[: space + 1]
        pieces.append(piece)
        text = text[len(piece) :]
    return [*pieces, text]


def _line(cells: Sequence[str]) -> str:
    return _BETWEEN.join(cells).rstrip()


def _is_text(type_name: str) -> bool:
    inner = type_name.removeprefix("LowCardinality(").removeprefix("Nullable(")
    return not inner.startswith(("Int", "UInt", "Float", "Decimal"))


def _cell_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, float) and math.isfinite(value):
        rounded = round(value, _DECIMALS)
        # A small number is not zero.
        return repr(rounded if rounded or not value else value).removesuffix(".0")
    return visible(json.dumps(value, ensure_ascii=False))
