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


# How each line begins; one that was cut short may have less.
_BEGINNING = f'{{"{rows.FILE}": {{'.encode()


class Journal:
    """Appends to `path`, which is opened for that at once; a last line that was cut short is removed.

    `finished`: the names that are done. InputError if the file is no journal, which stays as it is then.
    `is_only_read`: nothing is made or changed, and nothing can be added.
    """

    def __init__(self, path: Path, *, is_only_read: bool = False) -> None:
        self._path = path
        self._out: int | None = None
        self.finished: set[str] = set()
        end = 0
        with files.explain_os_errors(path):
            if path.exists():
                for line, whole in self._read():
                    end = whole
                    self.finished.add(str(line[rows.FILE]["domain"]))
            if is_only_read:
                return
            path.parent.mkdir(parents=True, exist_ok=True)
            self._out = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            os.ftruncate(self._out, end)

    def lines(self) -> Iterator[Line]:
        """Yield the lines: the rows by record kind."""
        return (line for line, _ in self._read())

    def _read(self) -> Iterator[tuple[Line, int]]:
        """Yield each whole line, and at which byte it ends."""
        kinds = {kind: set(rows.own_columns(kind)) for kind in (rows.FILE, rows.PAGE)}
        end = 0
        with self._path.open("rb") as file:
            for number, text in enumerate(file, start=1):
                if not text.endswith(b"\n") and text[: len(_BEGINNING)] == _BEGINNING[: len(text)]:
                    return
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
                end += len(text)
                yield line, end

    def add(self, result: Result) -> Line:
        """Append a result, and return its line. OutputError if it cannot be written."""
        assert self._out is not None, "a journal that is only read"
        line = {rows.FILE: rows.file_row(result), rows.PAGE: rows.page_row(result)}
        with files.explain_os_errors(self._path):
            left = memoryview(json.dumps(line).encode() + b"\n")
            while left:
                left = left[os.write(self._out, left) :]
        return line

    def close(self) -> None:
        """Close the file."""
        if self._out is not None:
            os.close(self._out)
