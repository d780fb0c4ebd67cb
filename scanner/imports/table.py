"""QScanner's CSV files, read line by line, and side by side by target."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from firstflight.errors import InputError

# What names a target in every file; earlier versions of QScanner have no targetid.
_KEY = ("targetid", "address", "port", "hostname")

Key = tuple[str, ...]


@dataclass(frozen=True)
class Line:
    """One row of a file, and the number of its last line there; `key` names its target."""

    number: int
    key: Key
    values: dict[str, str]


def read(path: Path) -> Iterator[Line]:
    """Yield the rows of a file with a header. InputError if it cannot be read or is no CSV file."""
    try:
        with path.open(encoding="utf-8", errors="replace", newline="") as file:
            reader = csv.DictReader(file, restkey="", restval="")
            for values in reader:
                values.pop("", None)  # fields without a name in the header
                yield Line(reader.line_num, tuple(values.get(name, "") for name in _KEY), values)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    except csv.Error as error:
        raise InputError(f"{path} is no CSV file: {error}") from error


class Beside:
    """A file with rows of some of the targets of another file, in the same order; none if it is missing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows = read(path) if path.exists() else iter(())
        self._next = next(self._rows, None)

    def one(self, key: Key) -> Line | None:
        """Return the next row if it is of that target."""
        found = self._next
        if found is None or found.key != key:
            return None
        self._next = next(self._rows, None)
        return found

    def each(self, key: Key, by: str) -> list[Line]:
        """Return the next rows as long as they are of that target and differ in column `by`.

        InputError if the file has no such column.
        """
        if self._next is not None and by not in self._next.values:
            raise InputError(f"{self._path} has no column {by}: it is none of QScanner's files of this name")
        found: dict[str, Line] = {}
        while self._next is not None and self._next.values.get(by, "") not in found:
            row = self.one(key)
            if row is None:
                break
            found[row.values.get(by, "")] = row
        return list(found.values())

    def check_end(self, other: str) -> None:
        """Raise InputError if rows are left: of targets that the other file has elsewhere, or not at all."""
        if self._next is not None:
            raise InputError(
                f"{self._path}: the row that ends in line {self._next.number} is of a target that {other} "
                "does not have at this place: the files are of different runs"
            )
