"""The user's own target list: a file with one `domain` or `rank,domain` (Tranco's format) per line."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from crawler.lists.target_list import TargetList, data_lines, read_lines
from firstflight.errors import InputError


def read(path: Path, top: int | None = None, scratch: Path | None = None) -> TargetList:
    """Read the list at `path`, at most its first `top` names.

    Its id is `file:NAME:SHA`, where SHA is the first 12 hex digits of the file's SHA-256, so that an edited
    list has another id. InputError if the file cannot be read. `scratch`: a folder for temporary files.
    """
    content = hashlib.sha256()
    try:
        with path.open("rb") as file:
            lines = _hashed(file, content)
            found = read_lines("", data_lines(lines), top, scratch)
            for _ in lines:  # those after the first `top` names belong to the file, too
                pass
    except OSError as error:
        raise InputError(f"cannot read the target list {path}: {error.strerror or error}") from error
    found.list_id = f"file:{path.name}:{content.hexdigest()[:12]}"
    return found


def _hashed(lines: Iterable[bytes], content: hashlib._Hash) -> Iterator[bytes]:
    for line in lines:
        content.update(line)
        yield line
