"""The names of `firstflight crawl --targets`: a CSV file with a column `domain`."""

from __future__ import annotations

import csv
import io
import sys
from dataclasses import dataclass, field
from pathlib import Path

from firstflight.errors import InputError
from firstflight.host_names import NotAName, normalise


@dataclass
class Names:
    """A file's distinct names, in order. `rejected`: (line, reason) pairs; `duplicates`: a count."""

    names: list[str] = field(default_factory=list)
    rejected: list[tuple[int, str]] = field(default_factory=list)
    duplicates: int = 0


def read(path: Path) -> Names:
    """Read a CSV file (`-`: standard input). InputError if it is not UTF-8 or has no column `domain`."""
    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
        text = data.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {error}; nothing was sent") from error
    lines = csv.reader(io.StringIO(text, newline=""))
    names = Names()
    try:
        header = next(lines, [])
        if "domain" not in header:
            raise InputError(f"{path}, line 1: expected a header with the column domain; nothing was sent")
        column, seen = header.index("domain"), set[str]()
        for line in lines:
            if not line:
                continue
            try:
                name = normalise(line[column] if column < len(line) else "")
            except NotAName as error:
                names.rejected.append((lines.line_num, str(error)))
                continue
            names.duplicates += name in seen
            if name not in seen:
                seen.add(name)
                names.names.append(name)
    except csv.Error as error:
        raise InputError(f"{path}, line {lines.line_num}: {error}; nothing was sent") from error
    return names
