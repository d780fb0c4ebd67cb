"""Counts probe rows by outcome."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
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


def of(tables: Iterable[pa.Table | pa.RecordBatch]) -> Counts:
    """Count the rows of tables with the columns `outcome` and `attempts`."""
    by_outcome: Counter[str] = Counter()
    sent = 0
    for rows in tables:
        for entry in pc.value_counts(rows["outcome"]).to_pylist():
            by_outcome[str(entry["values"])] += int(entry["counts"])
        sent += pc.sum(pc.greater(rows["attempts"], 0).cast(pa.uint32())).as_py() or 0
    return Counts(sent, dict(by_outcome))
