"""Files that are whole or absent: written beside their place as `*.part`, then renamed."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from firstflight.errors import FirstflightError, InputError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a path to write to; it becomes `path` when the block ends without an error, else it goes away.

    The temporary name holds the process id, so that two processes never write into the same file.
    Raises FirstflightError with one sentence when the disk is full or the folder cannot be written.
    """
    temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
    with explain_os_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield temporary
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


@contextmanager
def explain_os_errors(path: Path) -> Iterator[None]:
    """Turn an OSError inside the block into a FirstflightError that names `path` and what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            message = (
                f"the disk that holds {path} is full; what was written is kept: free space, then do it again "
                "(a campaign by --resume)"
            )
        else:
            message = f"cannot write {path}: {error.strerror or error} ({error.filename or path})"
        raise FirstflightError(message) from error


def write_text(path: Path, text: str) -> None:
    """Write `text` (UTF-8) to `path` in one step."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON to `path` in one step."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    """Read a JSON file; InputError with one sentence if it is missing or broken."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise InputError(f"{path} is not JSON: {error}") from error


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's content, hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
