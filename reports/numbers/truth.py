"""Reads declared values to print with measured ones, for example from `firstflight lab truth --table1`."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firstflight.errors import InputError


@dataclass(frozen=True)
class Declared:
    """A CDN's declared values; shares are fractions from 0 to 1, `None` if not declared."""

    cdn: str
    domains: int | None
    iack_share_max: float | None
    variation: float | None


def read(path: Path) -> dict[str, Declared]:
    """Read declared values by CDN, from JSON lines or (NAME.csv) CSV with a header; ignore other columns.

    InputError names the line that cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    declared: dict[str, Declared] = {}
    for number, record in _records(path, text):
        try:
            domains, share, variation = (
                _text_or_none(record[name]) for name in ("domains", "iack_share_max", "variation")
            )
            cdn = Declared(
                str(record["cdn"]),
                int(domains) if domains is not None else None,
                float(share) if share is not None else None,
                float(variation) if variation is not None else None,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"{path}, line {number}: expected cdn, domains, iack_share_max, variation ({error!r})"
            ) from error
        declared[cdn.cdn] = cdn
    return declared


def _records(path: Path, text: str) -> list[tuple[int, dict[str, Any]]]:
    if path.suffix == ".csv":
        return list(enumerate(csv.DictReader(text.splitlines()), start=2))
    records = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                record = json.loads(line)
            except ValueError as error:
                raise InputError(f"{path}, line {number}: not JSON ({error})") from error
            if not isinstance(record, dict):
                raise InputError(f"{path}, line {number}: not a JSON object")
            records.append((number, record))
    return records


def _text_or_none(value: object) -> str | None:
    return None if value is None or value == "" else str(value)
