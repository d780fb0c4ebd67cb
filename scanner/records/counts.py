"""Counts rows by outcome."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from firstflight.run.accounting import NOT_SENT


@dataclass(frozen=True)
class OutcomeCounts:
    """Numbers of rows with at least one attempt, and of rows by outcome."""

    sent: int
    by_outcome: dict[str, int]

    def for_report(self) -> dict[str, int]:
        """Return the counts in the form of a stage's report, with outcomes in alphabetical order."""
        return {"sent": self.sent, **dict(sorted(self.by_outcome.items()))}


def of(tables: Iterable[pa.Table | pa.RecordBatch]) -> OutcomeCounts:
    """Count the rows of tables with the columns `outcome` and `attempts`."""
    by_outcome: Counter[str] = Counter()
    sent = 0
    for rows in tables:
        for entry in pc.value_counts(rows["outcome"]).to_pylist():
            by_outcome[str(entry["values"])] += int(entry["counts"])
        sent += pc.sum(pc.greater(rows["attempts"], 0).cast(pa.uint32())).as_py() or 0
    return OutcomeCounts(sent, dict(by_outcome))


def of_connections(tables: Iterable[pa.Table | pa.RecordBatch]) -> dict[str, int]:
    """Return the number of rows with a sent packet, and of rows by outcome, in alphabetical order.

    For kinds in which only `outcome` shows whether a packet was sent.
    """
    by_outcome: Counter[str] = Counter()
    for table in tables:
        for entry in pc.value_counts(table["outcome"]).to_pylist():
            by_outcome[str(entry["values"])] += int(entry["counts"])
    sent = by_outcome.total() - sum(by_outcome[outcome] for outcome in NOT_SENT)
    return {"sent": sent, **{name: by_outcome[name] for name in sorted(by_outcome) if by_outcome[name]}}
