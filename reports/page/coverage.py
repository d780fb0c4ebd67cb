"""Compares what a run should contain with what is in the store: vantage points, repetitions, rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Cell:
    """A vantage point in a repetition: its row of sql/coverage.sql, or None; `lacks` says what is missing."""

    row: Mapping[str, Any] | None
    lacks: str | None


@dataclass(frozen=True)
class Coverage:
    """The coverage of a run. `cells[vantage]` has one cell per repetition."""

    repetitions: list[int]
    cells: dict[str, list[Cell]]

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

    Both may be empty (record files loaded without their run): then only gaps between the rows are found.
    """
    present = {(str(row["vantage"]), int(row["repetition"])): row for row in rows}
    declared = [str(one.get("name")) for one in settings.get("vantage", []) if isinstance(one, dict)]
    vantages = declared + sorted({vantage for vantage, _ in present} - set(declared))
    announced = manifest.get("repetitions")
    last = max([announced if isinstance(announced, int) else 0, *(number for _, number in present)])
    repetitions = list(range(1, last + 1))
    probes = {
        (entry.get("vantage"), entry.get("repetition")): entry
        for entry in manifest.get("stages", [])
        if isinstance(entry, dict) and entry.get("stage") == "probe"
    }
    cells = {
        vantage: [
            _cell(present.get((vantage, number)), probes.get((vantage, number)), known=bool(manifest))
            for number in repetitions
        ]
        for vantage in vantages
    }
    return Coverage(repetitions, cells)


def _cell(row: Mapping[str, Any] | None, stage: Mapping[str, Any] | None, *, known: bool) -> Cell:
    if row is not None:
        made = (stage or {}).get("rows_out")
        if isinstance(made, int) and made != row["probes"]:
            return Cell(row, f"{row['probes']} of the {made} probes that the stage reported are in the store")
        return Cell(row, None)
    if stage is None:
        return Cell(None, "the probe stage was never started" if known else "no probes in the store")
    if stage.get("state") == "done":
        return Cell(None, "probed, but not loaded into the store")
    message = stage.get("message")
    return Cell(None, f"the probe stage is {stage.get('state')}" + (f" ({message})" if message else ""))
