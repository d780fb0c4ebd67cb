"""The journal of a crawl: a line per finished name, so that a crawl that was killed goes on where it was.

Scrapy's JOBDIR keeps requests; a name's address, robots.txt and counts would be lost with the process. A name
whose crawl was cut short is crawled again from its start page.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from crawler.files import rows
from crawler.files.spider import Result
from firstflight.errors import InputError
from firstflight.system import files

Line = dict[str, rows.Row]


class Journal:
    """Appends to `path`, which is opened for that at once; a last line that was cut short is removed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with files.explain_os_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._end_at_line(path)
            self._out = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def finished(self) -> set[str]:
        """Return the names that are done."""
        return {str(line[rows.FILE]["domain"]) for line in self.lines()}

    def lines(self) -> Iterator[Line]:
        """Yield the lines: the rows by record kind. InputError if the file is no journal."""
        kinds = {kind: set(rows.own_columns(kind)) for kind in (rows.FILE, rows.PAGE)}
        with self._path.open(encoding="utf-8") as file:
            for number, text in enumerate(file, start=1):
                try:
                    line: Any = json.loads(text)
                    whole = all(set(line[kind]) == columns for kind, columns in kinds.items())
                except (ValueError, KeyError, TypeError):
                    whole = False
                if not whole:
                    raise InputError(
                        f"{self._path}, line {number}: this is no line of a crawl's journal of this version; "
                        "name another file, or remove it to begin again"
                    )
                yield line

    def add(self, result: Result) -> Line:
        """Append a result, and return its line. OutputError if it cannot be written."""
        line = {rows.FILE: rows.file_row(result), rows.PAGE: rows.page_row(result)}
        with files.explain_os_errors(self._path):
            left = memoryview(json.dumps(line).encode() + b"\n")
            while left:
                left = left[os.write(self._out, left) :]
        return line

    def close(self) -> None:
        """Close the file."""
        os.close(self._out)

    @staticmethod
    def _end_at_line(path: Path) -> None:
        if not path.exists():
            return
        with path.open("r+b") as file:
            end = file.seek(0, os.SEEK_END)
            while end:
                begin = max(0, end - 65_536)
                file.seek(begin)
                place = file.read(end - begin).rfind(b"\n")
                if place >= 0:
                    file.truncate(begin + place + 1)
                    return
                end = begin
            file.truncate(0)
