"""Reads QScanner's CSV files line by line, in parallel by target."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from firstflight.errors import InputError

# The columns that identify a target in every file. Earlier versions of QScanner have no targetid.
_KEY = ("targetid", "address", "port", "hostname")

Key = tuple[str, ...]


@dataclass(frozen=True)
class TableLine:
    """A row in a file, and the number of the row's last line. `key` identifies the target."""

    number: int
    key: Key
    values: dict[str, str]


def read(path: Path) -> Iterator[TableLine]:
    """Yield the rows in a file with a header. InputError if it is unreadable or not a CSV file."""
    try:
        with path.open(encoding="utf-8", errors="replace", newline="") as file:
            reader = csv.DictReader(file, restkey="", restval="")
            for values in reader:
                values.pop("", None)  # fields without a name in the header
                yield TableLine(reader.line_num, tuple(values.get(name, "") for name in _KEY), values)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    except csv.Error as error:
        raise InputError(f"{path} is not a CSV file: {error}") from error


class PartialTable:
    """A file with rows for some targets of another file, in the same order. A missing file has no rows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows = read(path) if path.exists() else iter(())
        self._next = next(self._rows, None)

    def row_of(self, key: Key) -> TableLine | None:
        """Return the next row if it belongs to the target."""
        line = self._next
        if line is None or line.key != key:
            return None
        self._next = next(self._rows, None)
        return line

    def rows_of(self, key: Key, by: str) -> list[TableLine]:
        """Return the next rows while they belong to the target and differ in column `by`.

        Raise InputError if the file has no such column.
        """
        if self._next is not None and by not in self._next.values:
            raise InputError(f"{self._path} has no column {by}: it is not a QScanner file")
        lines: dict[str, TableLine] = {}
        while self._next is not None and self._next.values.get(by, "") not in lines:
            row = self.row_of(key)
            if row is None:
                break
            lines[row.values.get(by, "")] = row
        return list(lines.values())

    def check_end(self, other: str) -> None:
        """Raise InputError if rows remain: the other file has their targets elsewhere, or lacks them."""
        if self._next is not None:
            raise InputError(
                f"{self._path}: the row that ends in line {self._next.number} belongs to a target that is "
                f"missing, or in another position, in {other}: the files are from different runs"
            )
