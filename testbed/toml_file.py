"""Reads a TOML file into a model; every fault is one sentence."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from firstflight.errors import UsageError
from firstflight.settings.read import fault_message

M = TypeVar("M", bound=BaseModel)


def read(path: Path, model: type[M]) -> M:
    """Return a file's content. UsageError if it is unreadable, not TOML, or has an invalid value."""
    try:
        return model.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}") from error
    except ValidationError as error:
        raise UsageError(fault_message(str(path), error.errors()[0])) from error
