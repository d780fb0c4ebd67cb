"""Derives an entry of the table of known stacks from the fingerprints of a stack's servers.

scanner/native/handshake/src/stack.rs describes entries, docs/definitions.md (A handshake) fingerprints.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from firstflight.errors import InputError

_COLUMNS = ("domain", "stack_fingerprint")
_PARQUET = b"PAR1"


def read(path: Path, domains: Collection[str] = ()) -> set[str]:
    """Return the distinct fingerprints of completed handshakes with `domains`; with no domain: with any.

    `path`: a record file quic_handshake.parquet, or JSON lines of `firstflight handshake`. InputError with
    the path if the file cannot be read, or is neither.
    """
    try:
        with path.open("rb") as file:
            rows = _from_parquet(path) if file.read(4) == _PARQUET else _from_lines(path)
            return {
                _text(text)
                for domain, text in rows
                if text is not None and (not domains or domain in domains)
            }
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        raise InputError(
            f"{path}: {error}: give quic_handshake.parquet, or JSON lines of `firstflight handshake`"
        ) from error


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a stack_fingerprint is no text")
    return value


def _from_parquet(path: Path) -> Iterator[tuple[object, object]]:
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(columns=list(_COLUMNS)):
            yield from zip(*(batch.column(name).to_pylist() for name in _COLUMNS), strict=True)


def _from_lines(path: Path) -> Iterator[tuple[object, object]]:
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                row = json.loads(line)
                found = row["domain"], row["stack_fingerprint"]
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise ValueError(f"line {number} is no row of quic_handshake: {error}") from error
            yield found


def merged(fingerprints: Collection[str]) -> tuple[str, bool]:
    """Return the parameters of an entry that fits all `fingerprints`, and whether it fits them in any order.

    A parameter is optional (`?`) if a fingerprint lacks it. A value is kept if it never differs. The order
    is kept if no two fingerprints contradict each other. InputError if a parameter is repeated, or if there
    are too many to be shown (`+N`).
    """
    values: dict[str, set[str]] = {}
    counts: Counter[str] = Counter()
    order: TopologicalSorter[str] = TopologicalSorter()
    for text in sorted(fingerprints):
        parameters = dict(parameter.partition("=")[::2] for parameter in text.split(","))
        if len(parameters) <= text.count(",") or "+" in text:
            raise InputError(f"no stack has the parameters {text}: remove this handshake")
        counts.update(parameters.keys())
        for identifier, value in parameters.items():
            values.setdefault(identifier, set()).add(value)
            order.add(identifier)
        for before, after in pairwise(parameters):
            order.add(after, before)
    try:
        identifiers, any_order = list(order.static_order()), False
    except CycleError:
        identifiers, any_order = sorted(values), True
    elements = []
    for identifier in identifiers:
        (value, *others) = values[identifier]
        shown = f"={value}" if not others and value.isdigit() else ""
        optional = "?" if counts[identifier] < len(fingerprints) else ""
        elements.append(f"{identifier}{shown}{optional}")
    return ",".join(elements), any_order


def entry(stack: str, version: str, fingerprints: Collection[str]) -> dict[str, object]:
    """Return the entry for a version of a stack, from at least one fingerprint of its servers."""
    parameters, any_order = merged(fingerprints)
    found: dict[str, object] = {"stack": stack, "versions": {version: "server"}}
    if any_order:
        found["any_order"] = True
    return {**found, "parameters": parameters}
