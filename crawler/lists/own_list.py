"""The user's own target list: a file with one `domain` or `rank,domain` (Tranco's format) per line."""

from __future__ import annotations

import hashlib
from pathlib import Path

from crawler.lists.target_list import TargetList, data_lines, read_lines
from firstflight.errors import InputError


def read(path: Path, top: int | None = None) -> TargetList:
    """Read the list at `path`, at most its first `top` names.

    Its id is `file:NAME:SHA`, where SHA is the first 12 hex digits of the file's SHA-256, so that an edited
    list has another id. InputError if the file cannot be opened.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read the target list {path}: {error.strerror or error}") from error
    list_id = f"file:{path.name}:{hashlib.sha256(content).hexdigest()[:12]}"
    return read_lines(list_id, data_lines(content), top)
