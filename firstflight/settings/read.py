"""Reads and validates a settings file with overrides from the command line. Each fault is one sentence."""

from __future__ import annotations

import contextlib
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from firstflight.errors import UsageError
from firstflight.settings.whole import Settings
from firstflight.suggestion import did_you_mean

RENAMED = {"manners": "backoff", "watch.gives_way": 'watch.precedence = "low"'}
"""Keys of development versions, and their names since 0.1.0."""


def load(path: Path, overrides: Iterable[str] = ()) -> tuple[Settings, str]:
    """Read and validate a settings file.

    `overrides` are `section.key=value` texts, where value is TOML (`probe.rate=100`) or else a plain string.
    Return the settings in force and the file's original text. Raise UsageError with one sentence per fault.
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
    """Validate settings given as plain data. Messages refer to `where`; relative paths start at `base`."""
    try:
        return Settings.model_validate(dict(data), context={"base": base, "check_files": check_files})
    except ValidationError as error:
        raise UsageError(
            "\n".join(fault_message(where, fault, Settings) for fault in error.errors())
        ) from error


def fault_message(where: str, fault: Any, model: type[BaseModel]) -> str:
    """Return the message for a fault that pydantic found in the file `where`, read as a `model`."""
    key = ".".join(str(part) for part in fault["loc"]) or "settings"
    if fault["type"] == "extra_forbidden" and key in RENAMED:
        return f"{where}: {key}: no such setting; its name is {RENAMED[key]}"
    if fault["type"] == "extra_forbidden":
        return f"{where}: {key}: no such setting{_suggested(fault['loc'], model)}"
    if fault["type"] == "missing":
        return f"{where}: {key}: missing"
    message = str(fault["msg"]).removeprefix("Value error, ")
    # An invalid store URL may contain a password.
    value = None if key == "store.url" else fault.get("input")
    suffix = f" (given: {value!r})" if isinstance(value, str | int | float | bool) else ""
    return f"{where}: {key}: {message}{suffix}"


def _suggested(location: Sequence[str | int], model: type[BaseModel]) -> str:
    """Return the suggestion for an unknown key at `location` in a model, for example ("probe", "rat")."""
    section = model
    for part in location[:-1]:
        if isinstance(part, str) and part in section.model_fields:
            section = _section_of(section.model_fields[part].annotation) or section
    key = str(location[-1])
    # A key without its section is more likely than a section with a similar name.
    in_sections = [
        f"{name}.{key}"
        for name, field in section.model_fields.items()
        if key in getattr(_section_of(field.annotation), "model_fields", ())
    ]
    if in_sections:
        return f"; did you mean {' or '.join(in_sections[:3])}?"
    return did_you_mean(key, section.model_fields)


def _section_of(annotation: Any) -> type[BaseModel] | None:
    """Return the section in an annotation: Probe, or Vantage for tuple[Vantage, ...]."""
    for candidate in (annotation, *get_args(annotation)):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return None


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
