"""Validates untrusted names (from another machine, a file, a record) before they become paths.

Never join such a name to a folder with `/`. Use `inside`, which rejects names that could leave the folder. A
hash or run id that becomes a file name has only one valid form.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator

from firstflight.errors import InputError

RUN_ID = re.compile(r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]{6}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
# Linux limits in bytes: one component, and a whole path.
_MAX_COMPONENT, _MAX_NAME = 255, 1024


class UnsafeName(InputError):
    """A name that must not become a path. No file was read or written."""


def relative(name: str) -> str:
    """Return `name` if it is a relative path and every component is a plain file name.

    Raise UnsafeName for absolute paths, `.`, `..`, empty components, backslashes, control characters (NUL,
    line ends, escapes) and text that is not UTF-8.
    """
    try:
        encoded = name.encode()
    except UnicodeEncodeError as error:
        raise UnsafeName(f"{name!a} is not a file name: it is not UTF-8") from error
    components = name.split("/")
    if name.startswith("/"):
        raise UnsafeName(f"{name!a} is not a file name within a folder: it is absolute")
    if any(component in ("", ".", "..") for component in components):
        raise UnsafeName(f"{name!a} is not a file name within a folder: a part of it is empty, `.` or `..`")
    if "\\" in name or any(unicodedata.category(character) == "Cc" for character in name):
        raise UnsafeName(f"{name!a} is not a file name: it has a backslash or a control character")
    if len(encoded) > _MAX_NAME or any(len(part.encode()) > _MAX_COMPONENT for part in components):
        raise UnsafeName(f"{name[:60]!a}... is not a file name: it is too long")
    return name


def component(name: str) -> str:
    """Return `name` if it is one plain file name. Otherwise raise UnsafeName."""
    if "/" in relative(name):
        raise UnsafeName(f"{name!a} is not a plain file name: it also names a folder")
    return name


def inside(folder: Path, name: str) -> Path:
    """Return the path of `name` within `folder`. Neither needs to exist.

    Raise UnsafeName like `relative`, and if a symbolic link on the path leads out of the folder.
    """
    path = folder / relative(name)
    root = os.path.realpath(folder)
    if os.path.commonpath([root, os.path.realpath(path)]) != root:
        raise UnsafeName(f"{name!a} leads out of {folder} by a symbolic link: remove the link")
    return path


def sha256(text: str) -> str:
    """Return `text` if it is a SHA-256 in lower-case hex. Otherwise raise UnsafeName."""
    if not _SHA256.fullmatch(text):
        raise UnsafeName(f"{text[:80]!a} is not a SHA-256: expected 64 digits of 0-9 and a-f")
    return text


def run_id(text: str) -> str:
    """Return `text` if it has the form of a run id. Otherwise raise UnsafeName."""
    if not RUN_ID.fullmatch(text):
        raise UnsafeName(f"{text[:80]!a} is not a run id: expected the form 20261120T063905Z-a1b2c3")
    return text


def _checked(check: Callable[[str], str]) -> AfterValidator:
    """Adapt `check` to pydantic, which expects ValueError."""

    def validate(text: str) -> str:
        try:
            return check(text)
        except UnsafeName as error:
            raise ValueError(str(error)) from error

    return AfterValidator(validate)


RelativeName = Annotated[str, _checked(relative)]
Sha256 = Annotated[str, _checked(sha256)]
RunId = Annotated[str, _checked(run_id)]
