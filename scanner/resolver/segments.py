"""Record files of the resolve stage: closed segments while it runs, one dns_answer.parquet at its end."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from firstflight.errors import InputError
from firstflight.system import files
from scanner.resolver.answer import QTYPES, UNANSWERED, HttpsRecord, Outcome
from scanner.resolver.engine import Name
from schemas import records

# Writing blocks the event loop, and with it open queries, for a moment (20 ms for this many rows).
SEGMENT_ROWS = 5_000
SEGMENT_S = 5.0

Row = dict[str, Any]


def rows(name: Name, outcomes: dict[str, Outcome], common: Row) -> Iterator[Row]:
    """Yield the rows of one name: one per record, or one with the status alone. `common` goes into each."""
    for qtype, outcome in outcomes.items():
        base = common | {
            "asked_at": outcome.asked_at_ns,
            "list_id": name.list_id,
            "rank": name.rank,
            "domain": name.domain,
            "qtype": qtype,
            "status": outcome.status,
            "rcode": outcome.rcode,
            "ttl": outcome.ttl,
            "cname_chain": [alias.target for alias in outcome.aliases],
            "cname_ttls": [alias.ttl for alias in outcome.aliases],
            "https_alpn": [],
            "https_ipv4hint": [],
            "https_ipv6hint": [],
            "https_ech_config_ids": [],
            "https_ech_public_names": [],
            "attempts": outcome.attempts,
            "transport": outcome.transport,
            "duration_us": outcome.duration_us,
            "detail": outcome.detail,
        }
        if not outcome.records:
            yield base
        for index, record in enumerate(outcome.records):
            yield base | {"answer_rank": index} | _record(record)


def _record(record: str | HttpsRecord) -> Row:
    if isinstance(record, str):
        return {"address": record}
    return {
        "https_priority": record.priority,
        "https_target": record.target,
        "https_port": record.port,
        "https_alpn": list(record.alpn),
        "https_ipv4hint": list(record.ipv4hint),
        "https_ipv6hint": list(record.ipv6hint),
        "https_ech": record.ech,
    }


class Segments:
    """Collects rows in segments, to be joined into one file. Closed segments survive a kill."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._schema = records.load("dns_answer").arrow_schema()
        self._rows: list[Row] = []
        self._closed_at = time.monotonic()
        self._next = 1

    def resume(self, resolver: str) -> set[str]:
        """Return the names that an earlier, unfinished attempt has answered; the others are queried again.

        Rows of another resolver are discarded: a file holds the answers of one resolver.
        """
        found = self._paths()
        if not found:
            return set()
        try:
            table = pa.concat_tables([pq.read_table(path, schema=self._schema) for path in found])
        except (OSError, pa.ArrowInvalid) as error:
            raise InputError(
                f"{self.folder} holds a broken segment ({error}): run the stage with --again"
            ) from error
        columns = table.select(["domain", "status", "resolver"]).to_pydict()
        triples = list(zip(columns["domain"], columns["status"], columns["resolver"], strict=True))
        again = {domain for domain, status, by in triples if status in UNANSWERED or by != resolver}
        kept = table.filter(pa.array([domain not in again for domain, _, _ in triples]))
        self._next = int(found[-1].stem.removeprefix("seg-")) + 1
        self._write(kept)
        for path in found:
            path.unlink()
        return {domain for domain, _, _ in triples} - again

    def add(self, more: Iterator[Row]) -> None:
        """Add all rows of one name; close the segment when it has enough rows or is old enough."""
        self._rows.extend(more)
        if len(self._rows) >= SEGMENT_ROWS or time.monotonic() - self._closed_at >= SEGMENT_S:
            self.close()

    def close(self) -> None:
        """Close the open segment."""
        if self._rows:
            self._write(pa.Table.from_pylist(self._rows, schema=self._schema))
            self._rows = []
        self._closed_at = time.monotonic()

    def finish(self, path: Path) -> Counter[str]:
        """Join all segments into `path` and remove them.

        Returns the counts: `rows`, `names`, and names by query type and status (`A_NOERROR`, ...).
        """
        self.close()
        counts: Counter[str] = Counter()
        found = self._paths()
        with (
            files.replacing(path) as part,
            pq.ParquetWriter(part, self._schema, compression="zstd") as writer,
        ):
            for segment in found:
                # ParquetFile, not read_table: the latter imports pyarrow.dataset, which takes half a second.
                table = pq.ParquetFile(segment).read().cast(self._schema)
                writer.write_table(table)
                counts["rows"] += table.num_rows
                counts.update(_statuses(table))
        for segment in found:
            segment.unlink()
        if self.folder.is_dir():
            self.folder.rmdir()
        counts["names"] = sum(n for key, n in counts.items() if key.startswith(f"{QTYPES[0]}_"))
        return counts

    def _write(self, table: pa.Table) -> None:
        with files.replacing(self.folder / f"seg-{self._next:06d}.parquet") as part:
            pq.write_table(table, part, compression="zstd")
        self._next += 1

    def _paths(self) -> list[Path]:
        return sorted(self.folder.glob("seg-*.parquet"))


def _statuses(table: pa.Table) -> Counter[str]:
    """Count (name, query type) pairs by status: rows without record, and first records."""
    columns = table.select(["qtype", "status", "answer_rank"]).to_pydict()
    triples = zip(columns["qtype"], columns["status"], columns["answer_rank"], strict=True)
    return Counter(f"{qtype}_{status}" for qtype, status, answer_rank in triples if not answer_rank)
