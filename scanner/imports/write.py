"""Writes another scanner's targets to record files of handshakes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from firstflight.system import files
from scanner.imports.qscanner import RecordRow, TargetRows
from schemas import records

KINDS = ("quic_handshake", "certificate", "http3_response")
# Maximum number of rows in memory, per kind.
BATCH = 4096


class RecordFileWriter:
    """Context manager for a record file. Rows are written one by one; the file appears when it is complete.

    `stamp`: values of columns that all rows share. Other missing values in a row are null.
    """

    def __init__(self, path: Path, kind: str, stamp: RecordRow) -> None:
        self.rows = 0
        self._path = path
        self._schema: pa.Schema = records.load(kind).arrow_schema()
        empty = dict.fromkeys(self._schema.names)
        self._common = empty | {name: value for name, value in stamp.items() if name in empty}
        self._waiting: list[RecordRow] = []
        self._open = ExitStack()

    def __enter__(self) -> Self:
        part = self._open.enter_context(files.replacing(self._path))
        writer = pq.ParquetWriter(part, self._schema, compression="zstd")
        self._writer = self._open.enter_context(writer)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._flush()
        self._open.__exit__(kind, error, trace)

    def add(self, row: RecordRow) -> None:
        """Add a row. Raise KeyError for a value without a column."""
        for name in row:
            self._common[name]
        self._waiting.append(self._common | row)
        self.rows += 1
        if len(self._waiting) >= BATCH:
            self._flush()

    def _flush(self) -> None:
        self._writer.write_table(pa.Table.from_pylist(self._waiting, schema=self._schema))
        self._waiting = []


def write(targets: Iterable[TargetRows], out: Path, stamp: RecordRow) -> dict[str, Any]:
    """Write a file for each of KINDS to the folder `out`. Return the rows by kind, and by outcome."""
    outcomes: Counter[str] = Counter()
    with ExitStack() as stack:
        handshakes, certificates, responses = (
            stack.enter_context(RecordFileWriter(out / f"{kind}.parquet", kind, stamp)) for kind in KINDS
        )
        for target in targets:
            handshakes.add(target.handshake)
            outcomes[target.handshake["outcome"]] += 1
            for certificate in target.certificates:
                certificates.add(certificate)
            if target.response is not None:
                responses.add(target.response)
    rows = dict(zip(KINDS, (handshakes.rows, certificates.rows, responses.rows), strict=True))
    return {**rows, "outcomes": dict(sorted(outcomes.items()))}
