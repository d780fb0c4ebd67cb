"""Counts probe rows by outcome."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True)
class Counts:
    """Rows with at least one attempt, and rows by outcome."""

    sent: int
    by_outcome: dict[str, int]

    def for_report(self) -> dict[str, int]:
        """Return the counts as a stage's report holds them, outcomes sorted by name."""
        return {"sent": self.sent, **dict(sorted(self.by_outcome.items()))}


def of(rows: pa.Table) -> Counts:
    """Count a table with the columns `outcome` and `attempts`."""
    by_outcome = {
        str(entry["values"]): int(entry["counts"]) for entry in pc.value_counts(rows["outcome"]).to_pylist()
    }
    sent = pc.sum(pc.greater(rows["attempts"], 0).cast(pa.uint32())).as_py()
    return Counts(sent or 0, by_outcome)
