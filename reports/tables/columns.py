"""Draws columns as a table: by rich on a terminal, as plain aligned text elsewhere."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from firstflight.system.terminal import visible


@dataclass(frozen=True)
class PrintedColumn:
    """A column to print; `title` has two lines."""

    title: str
    cells: list[str]
    right: bool = True

    def __post_init__(self) -> None:
        # Names of CDNs and servers are external text, from lists and files.
        object.__setattr__(self, "cells", [visible(cell) for cell in self.cells])


def table_text(columns: Sequence[PrintedColumn], *, terminal: bool) -> str:
    """Return the table of `columns`, a line per row; `terminal`: use colours and lines."""
    return _drawn(columns) if terminal else _plain(columns)


def _plain(columns: Sequence[PrintedColumn]) -> str:
    """Format columns, each padded to its width, with two spaces between them."""
    padded: list[list[str]] = []
    for column in columns:
        cells = [*column.title.split("\n"), *column.cells]
        width = max(len(cell) for cell in cells)
        padded.append([cell.rjust(width) if column.right else cell.ljust(width) for cell in cells])
    return "".join("  ".join(cells).rstrip() + "\n" for cells in zip(*padded, strict=True))


def _drawn(columns: Sequence[PrintedColumn]) -> str:
    table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for column in columns:
        table.add_column(escape(column.title), justify="right" if column.right else "left", no_wrap=True)
    for cells in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*(escape(cell) for cell in cells))
    out = io.StringIO()
    # Wide enough for all columns: a narrower terminal wraps lines, so no number is truncated.
    Console(file=out, force_terminal=True, highlight=False, width=200).print(table)
    return out.getvalue().strip("\n") + "\n"
