"""Writes files atomically: as `*.part` in the same folder, synced to disk, then renamed."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from firstflight.errors import InputError, OutputError


@contextmanager
def replacing(path: Path, *, lasting: bool = True) -> Iterator[Path]:
    """Yield a path to write to. Rename it to `path` if the block succeeds, else remove it.

    The temporary name contains the process id, so two processes never write to the same file. `lasting`: the
    content reaches the disk before the name. A file system may store the name first, and a power cut then
    leaves an empty file (docs/design/0046). False is for files that are useless after a power cut. Raise
    OutputError if the disk is full or the folder is not writable.
    """
    temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
    with explain_os_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield temporary
            if lasting:
                # A process that writes a page may have the right to add files to a folder, but not to read
                # files there.
                _sync(temporary, os.O_WRONLY)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


@contextmanager
def explain_os_errors(path: Path) -> Iterator[None]:
    """Turn an OSError in the block into an OutputError with `path` and a remedy."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            message = (
                f"the disk that holds {path} is full; written data is kept: free space, then repeat the "
                "command (a campaign with --resume)"
            )
        else:
            message = f"cannot write {path}: {error.strerror or error} ({error.filename or path})"
        raise OutputError(message) from error


def sync(paths: Iterable[Path]) -> None:
    """Wait until files and their directory entries are on the disk, so that they survive a power cut.

    Raise OutputError.
    """
    paths = list(paths)
    for path in [*paths, *{path.parent for path in paths}]:
        with explain_os_errors(path):
            _sync(path)


def _sync(path: Path, access: int = os.O_RDONLY) -> None:
    descriptor = os.open(path, access)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_text(path: Path, text: str, *, lasting: bool = True) -> None:
    """Write `text` (UTF-8) to `path` atomically. `lasting`: see `replacing`."""
    with replacing(path, lasting=lasting) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_secret(path: Path, text: str) -> None:
    """Write `text` (UTF-8) to `path` atomically, readable only for this user (mode 0600). Raise OSError."""
    part = path.with_name(f"{path.name}.part")
    part.unlink(missing_ok=True)
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    _sync(part)
    part.replace(path)


def write_json(path: Path, value: Any, *, lasting: bool = True) -> None:
    """Write `value` as indented JSON to `path` atomically. `lasting`: see `replacing`."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n", lasting=lasting)


def read_json(path: Path) -> Any:
    """Read a JSON file. Raise InputError if it is missing or invalid."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise InputError(f"{path} is not JSON: {error}") from error


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's content, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
