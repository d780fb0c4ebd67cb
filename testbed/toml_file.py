"""Reads a TOML file into a model; every error is a single sentence."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from firstflight.errors import UsageError
from firstflight.settings.read import fault_message

M = TypeVar("M", bound=BaseModel)


def read(path: Path, model: type[M]) -> M:
    """Return a file's content. UsageError if it is unreadable, not TOML, or has an invalid value."""
    return checked(path, tables(path), model)


def tables(path: Path) -> dict[str, Any]:
    """Return a file's keys and tables, unchecked. UsageError if it is unreadable or not TOML."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}") from error


def checked(path: Path, given: dict[str, Any], model: type[M]) -> M:
    """Return the result of `tables` as a model. UsageError if a value is invalid."""
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise UsageError(fault_message(str(path), error.errors()[0], model)) from error
