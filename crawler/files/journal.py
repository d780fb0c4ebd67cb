"""A crawl's journal: one line per finished name, from which a killed crawl continues.

Scrapy's JOBDIR only keeps requests: a name's address, robots.txt and counts would be lost with the process. A
name whose crawl was interrupted is crawled again from its start page.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from crawler.files import rows
from crawler.files.spider import CrawlResult
from firstflight.errors import InputError
from firstflight.system import files

Line = dict[str, rows.CrawlRow]


# Each line starts with this text. A truncated line may be shorter than it.
_BEGINNING = f'{{"{rows.FILE}": {{'.encode()


class Journal:
    """Opens `path` for appending, and removes a truncated last line.

    `finished`: the finished names. Raise InputError, and leave the file unchanged, if it is not a journal.
    `is_only_read`: change nothing on disk, and do not allow `add`.
    """

    def __init__(self, path: Path, *, is_only_read: bool = False) -> None:
        self._path = path
        self._out: int | None = None
        self.finished: set[str] = set()
        end = 0
        with files.explain_os_errors(path):
            if path.exists():
                for line, offset in self._read():
                    end = offset
                    self.finished.add(str(line[rows.FILE]["domain"]))
            if is_only_read:
                return
            path.parent.mkdir(parents=True, exist_ok=True)
            self._out = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            os.ftruncate(self._out, end)

    def lines(self) -> Iterator[Line]:
        """Yield the lines: rows by record kind."""
        return (line for line, _ in self._read())

    def _read(self) -> Iterator[tuple[Line, int]]:
        """Yield each complete line, and the byte offset at which it ends."""
        kinds = {kind: set(rows.own_columns(kind)) for kind in (rows.FILE, rows.PAGE)}
        end = 0
        with self._path.open("rb") as file:
            for number, text in enumerate(file, start=1):
                if not text.endswith(b"\n") and text[: len(_BEGINNING)] == _BEGINNING[: len(text)]:
                    return
                try:
                    line: Any = json.loads(text)
                    is_complete = all(set(line[kind]) == columns for kind, columns in kinds.items())
                except (ValueError, KeyError, TypeError):
                    is_complete = False
                if not is_complete:
                    raise InputError(
                        f"{self._path}, line {number}: this is no line of a crawl's journal of this version; "
                        "name another file, or remove it to begin again"
                    )
                end += len(text)
                yield line, end

    def add(self, result: CrawlResult) -> Line:
        """Append a result and return the line. Raise OutputError if it cannot be written."""
        assert self._out is not None, "a journal that is only read"
        line = {rows.FILE: rows.file_row(result), rows.PAGE: rows.page_row(result)}
        with files.explain_os_errors(self._path):
            remaining = memoryview(json.dumps(line).encode() + b"\n")
            while remaining:
                remaining = remaining[os.write(self._out, remaining) :]
        return line

    def close(self) -> None:
        """Close the file."""
        if self._out is not None:
            os.close(self._out)
