"""Reads and checks a settings file with overrides from the command line; every fault is one sentence."""

from __future__ import annotations

import contextlib
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from firstflight.errors import UsageError
from firstflight.settings.whole import Settings


def load(path: Path, overrides: Iterable[str] = ()) -> tuple[Settings, str]:
    """Read and check a settings file.

    `overrides` are `section.key=value` texts, where value is TOML (`probe.rate=100`) or else a plain string.
    Returns the settings in force and the file's text as given. Raises UsageError: one sentence per fault.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not a settings file: it is not UTF-8 text") from error
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is not TOML: {error}") from error
    for override in overrides:
        _apply(data, override)
    return check(data, str(path), path.resolve().parent), text


def check(data: Mapping[str, Any], where: str, base: Path, *, check_files: bool = True) -> Settings:
    """Check settings given as plain data. `where` names them in messages; relative paths start at `base`."""
    try:
        return Settings.model_validate(dict(data), context={"base": base, "check_files": check_files})
    except ValidationError as error:
        raise UsageError("\n".join(fault_message(where, fault) for fault in error.errors())) from error


def fault_message(where: str, fault: Any) -> str:
    """Return the message for a fault that pydantic found in the file `where`."""
    key = ".".join(str(part) for part in fault["loc"]) or "settings"
    if fault["type"] == "extra_forbidden":
        return f"{where}: {key}: no such setting"
    if fault["type"] == "missing":
        return f"{where}: {key}: missing"
    message = str(fault["msg"]).removeprefix("Value error, ")
    # An invalid store URL may contain a password.
    given = None if key == "store.url" else fault.get("input")
    shown = f" (given: {given!r})" if isinstance(given, str | int | float | bool) else ""
    return f"{where}: {key}: {message}{shown}"


def _apply(data: dict[str, Any], override: str) -> None:
    key, equals, value = override.partition("=")
    parts = key.strip().split(".")
    if not equals or len(parts) != 2 or not all(parts):
        raise UsageError(f"--set {override}: write it as section.key=value, for example probe.rate=100")
    parsed: Any = value.strip()
    if "\n" not in parsed:
        with contextlib.suppress(tomllib.TOMLDecodeError):
            parsed = tomllib.loads(f"value = {parsed}")["value"]
    section = data.setdefault(parts[0], {})
    if not isinstance(section, dict):
        raise UsageError(f"--set {override}: {parts[0]} is a list; change it in the file")
    section[parts[1]] = parsed
