"""The user's own target list: a file with one `domain` or `rank,domain` (Tranco's format) per line."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from crawler.lists.target_list import TargetList, check_not_empty, data_lines, read_lines
from firstflight.errors import InputError

_ENOUGH = 1000  # lines that usually include a name


def read(path: Path, top: int | None = None, scratch: Path | None = None) -> TargetList:
    """Read at most the first `top` names of the list at `path`.

    The list's id is `file:NAME:SHA`, with the first 12 hex digits of the file's SHA-256, so an edited list
    has another id. `scratch`: a folder for temporary files. Raise InputError if the file cannot be read.
    """
    content = hashlib.sha256()
    try:
        with path.open("rb") as file:
            lines = _hashed(file, content)
            target_list = read_lines("", data_lines(lines), top, scratch)
            for _ in lines:  # hash the lines after the first `top` names, too
                pass
    except OSError as error:
        raise InputError(f"cannot read the target list {path}: {error.strerror or error}") from error
    target_list.list_id = f"file:{path.name}:{content.hexdigest()[:12]}"
    return target_list


def _hashed(lines: Iterable[bytes], content: hashlib._Hash) -> Iterator[bytes]:
    for line in lines:
        content.update(line)
        yield line


def check(path: Path) -> None:
    """Raise InputError if the list at `path` cannot be read or has no name.

    Reads only the first lines, if they include a name.
    """
    try:
        with path.open("rb") as file:
            begin = read_lines("", islice(data_lines(file), _ENOUGH), None)
    except OSError as error:
        raise InputError(f"cannot read the target list {path}: {error.strerror or error}") from error
    if not begin.targets:
        check_not_empty(read(path))
