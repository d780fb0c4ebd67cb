"""Counts rows by outcome."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from firstflight.run.accounting import NOT_SENT


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


def of_connections(tables: Iterable[pa.Table | pa.RecordBatch]) -> dict[str, int]:
    """Return the rows for which something was sent, and the rows by outcome, sorted by name.

    Of kinds that tell by `outcome` alone whether something was sent.
    """
    found: Counter[str] = Counter()
    for table in tables:
        for entry in pc.value_counts(table["outcome"]).to_pylist():
            found[str(entry["values"])] += int(entry["counts"])
    sent = found.total() - sum(found[outcome] for outcome in NOT_SENT)
    return {"sent": sent, **{name: found[name] for name in sorted(found) if found[name]}}
