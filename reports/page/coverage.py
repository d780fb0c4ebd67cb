"""Compares the expected content of a run with the store: vantage points, repetitions, rows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# As firstflight.layout.StageKey is written.
_PART = re.compile(r"(?P<vantage>.+), repetition (?P<repetition>[0-9]+)(?:, shard (?P<shard>[0-9]+/[0-9]+))?")


@dataclass(frozen=True)
class CoverageCell:
    """A vantage point in a repetition: its row of sql/coverage.sql or `None`, and a note on missing parts."""

    row: Mapping[str, Any] | None
    lacks: str | None


@dataclass(frozen=True)
class Coverage:
    """A run's coverage. `cells[vantage]` has one cell per repetition."""

    repetitions: list[int]
    cells: dict[str, list[CoverageCell]]

    @property
    def missing(self) -> list[str]:
        """One sentence for each missing part."""
        return [
            f"{vantage}, repetition {repetition}: {cell.lacks}"
            for vantage, cells in self.cells.items()
            for repetition, cell in zip(self.repetitions, cells, strict=True)
            if cell.lacks
        ]


def compare(
    rows: Sequence[Mapping[str, Any]], manifest: Mapping[str, Any], settings: Mapping[str, Any]
) -> Coverage:
    """Compare the rows of sql/coverage.sql with the run's manifest and settings.

    Both may be empty (record files loaded without their run): then only gaps between the rows are found. The
    manifest of a campaign lists its stages; the manifest of a scheduled run lists the parts that were not
    loaded (`missing`).
    """
    present = {(str(row["vantage"]), int(row["repetition"])): row for row in rows}
    shards = {
        str(vantage.get("name")): int(vantage.get("shards") or 1)
        for vantage in settings.get("vantage", [])
        if isinstance(vantage, dict)
    }
    declared = manifest.get("vantage_points") or list(shards)
    vantages = declared + sorted({vantage for vantage, _ in present} - set(declared))
    announced = manifest.get("repetitions")
    last = max([announced if isinstance(announced, int) else 0, *(number for _, number in present)])
    repetitions = list(range(1, last + 1))
    parts = None if "stages" in manifest else _not_loaded(manifest)

    def lacks(vantage: str, number: int) -> str | None:
        row = present.get((vantage, number))
        if parts is not None:
            return _part_lacks(row, parts.get((vantage, number), []))
        return _stage_lacks(row, _probe_stages(manifest, vantage, number), shards.get(vantage, 1))

    cells = {
        vantage: [
            CoverageCell(present.get((vantage, number)), lacks(vantage, number)) for number in repetitions
        ]
        for vantage in vantages
    }
    return Coverage(repetitions, cells)


def _not_loaded(manifest: Mapping[str, Any]) -> dict[tuple[str, int], list[str]]:
    """Return the shards that a scheduled run's manifest calls missing, by vantage point and repetition.

    The shard of a part that is not divided is empty.
    """
    parts: dict[tuple[str, int], list[str]] = {}
    for text in manifest.get("missing") or []:
        part = _PART.fullmatch(str(text))
        if part is not None:
            parts.setdefault((part["vantage"], int(part["repetition"])), []).append(part["shard"] or "")
    return parts


def _part_lacks(row: Mapping[str, Any] | None, shards: Sequence[str]) -> str | None:
    if row is None:
        return "no probes in the store"
    return f"not loaded: shard {', '.join(shards)}" if any(shards) else "not loaded whole" if shards else None


def _probe_stages(manifest: Mapping[str, Any], vantage: str, repetition: int) -> list[Mapping[str, Any]]:
    """Return the entries for a key's probe stage, one per shard."""
    return [
        entry
        for entry in manifest["stages"]
        if isinstance(entry, dict)
        and entry.get("stage") == "probe"
        and (entry.get("vantage"), entry.get("repetition")) == (vantage, repetition)
    ]


def _stage_lacks(
    row: Mapping[str, Any] | None, stages: Sequence[Mapping[str, Any]], shards: int
) -> str | None:
    """Return the missing parts in a campaign's key. The store has the rows of all shards together."""
    if not stages:
        return "the probe stage was never started" if row is None else None
    if row is None and all(stage.get("state") == "done" for stage in stages):
        return "probed, but not loaded into the store"
    faults = [_fault(stage) for stage in stages if stage.get("state") != "done"]
    if len(stages) < shards:
        faults.append(f"the probe stage of {shards - len(stages)} of {shards} shards was never started")
    if row is None or (shards > 1 and faults):
        return "; ".join(faults)
    counts = [stage.get("rows_out") for stage in stages]
    reported = sum(count for count in counts if isinstance(count, int))
    if None not in counts and reported != row["probes"]:
        return f"{row['probes']} of the {reported} probes that the stage reported are in the store"
    return None


def _fault(stage: Mapping[str, Any]) -> str:
    shard, message = stage.get("shard"), stage.get("message")
    of_shard = f" of shard {shard}" if shard else ""
    return f"the probe stage{of_shard} is {stage.get('state')}" + (f" ({message})" if message else "")
