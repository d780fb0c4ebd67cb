"""Lists of names in place of lists of addresses.

The readers of `crawler.lists` are for millions of names, and load numpy. numpy starts threads, which a
process must not have when it confines itself. This module also checks the first line of every list of
addresses.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from firstflight.errors import InputError
from firstflight.host_names import NotAName, normalise, quoted

# A `#` within a word does not start a comment: the text before it would become another name.
_COMMENT = re.compile(r"(?:^|\s)#.*")


class NameList(NamedTuple):
    """A list's names in its order, each once, and (line number, reason) of each rejected line."""

    names: list[str]
    rejected: list[tuple[int, str]]


def holds_names(path: Path) -> bool:
    """Return whether a file lists names: one per line, or in a column `domain` without a column `ip`.

    False also for a file that cannot be read: the engine reports the error.
    """
    try:
        fields = _columns(path)
    except OSError:
        return False
    if "domain" in fields:
        return "ip" not in fields
    try:
        _name(fields)
    except NotAName:
        return False
    return True


def read(path: Path) -> NameList:
    """Read a file for which `holds_names` is true. InputError if it cannot be read completely."""
    names: dict[str, None] = {}
    rejected = []
    name_of: Callable[[list[str]], str] = _name
    try:
        for position, (number, fields) in enumerate(_lines(path)):
            header = [field.lower() for field in fields]
            if position == 0 and "domain" in header:
                name_of = _column(header.index("domain"))
                continue
            try:
                names[name_of(fields)] = None
            except NotAName as error:
                rejected.append((number, str(error)))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    return NameList(list(names), rejected)


def _columns(path: Path) -> list[str]:
    """Return the fields of the first line, in lower case."""
    _, fields = next(_lines(path), (0, [""]))
    return [field.lower() for field in fields]


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the fields of each line that is neither empty nor a comment."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="\n") as file:
        for number, line in enumerate(file, start=1):
            if text := _COMMENT.sub("", line.rstrip("\r\n")).strip():
                yield number, [field.strip() for field in _fields(text)]


def _fields(text: str) -> list[str]:
    try:
        return next(csv.reader([text], skipinitialspace=True), [])
    except csv.Error:
        return [text]


def _column(place: int) -> Callable[[list[str]], str]:
    """Return the function of a line's fields that returns the name in this column."""
    return lambda fields: normalise(fields[place] if place < len(fields) else "")


def _name(fields: list[str]) -> str:
    """Return the name in a line `domain` or `rank,domain` (Tranco's format)."""
    if len(fields) > 2 or (len(fields) == 2 and not fields[0].isdecimal()):
        raise NotAName(f"{quoted(','.join(fields))} is no name; write `domain` or `rank,domain`")
    return normalise(fields[-1])
