"""Reads record files (Parquet) and checks every row against the description of the record kind.

A row that contradicts the description is never loaded. A null in a column that is not nullable, a value
outside a closed list, a number out of range, and a missing or unknown column cause the whole file to be
refused, with the column's name.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from firstflight.errors import InputError
from firstflight.system import files
from schemas import records
from store.load import cost
from store.load import origin as origins
from store.load.origin import FileOrigin
from store.load.part import ALL, ShardPart

BATCH_ROWS = 1 << 16
# Small row groups are joined up to this size. Twice this size needs some 90 MB more for the widest kinds.
BATCH_BYTES = 8 << 20
_METADATA_KEY = b"firstflight.kind"
Unit = tuple[str, ...]


class Contradiction(InputError):
    """A readable file with content that contradicts the description of the record kind."""


@dataclass
class FileContent:
    """A whole file's content: rows per unit, and first and last time of measurement (ns) per unit."""

    rows: Counter[Unit] = field(default_factory=Counter)
    first: dict[Unit, int] = field(default_factory=dict)
    last: dict[Unit, int] = field(default_factory=dict)


class RecordFile:
    """One record file. `filled` has the loader's values: source_file (its name in the load log) and run.

    `part`: the part of each unit that the file has. `origin`: the file's origin (default: outside any run).
    """

    def __init__(
        self,
        path: Path,
        filled: dict[str, str] | None = None,
        part: ShardPart = ALL,
        origin: FileOrigin | None = None,
    ) -> None:
        """Open the file and check its columns; InputError if it is not a whole record file."""
        self.path = path
        self.origin = origin or origins.of_file(path)
        self.part = part
        self.name = (filled or {}).get("source_file", str(path))
        try:
            self._cost = cost.of_file(path, _opened(path, ()), BATCH_ROWS)
            self._file = _opened(path, sorted(self._cost.dictionaries))
            self.sha256 = files.sha256_of(path)
        except cost.TooCostly as error:
            raise InputError(f"{path} is not a record file of firstflight: {error}") from error
        except (OSError, pa.ArrowException) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise InputError(f"cannot read {path}: {os.strerror(error.errno)}") from error
            raise InputError(f"{path} is not a whole Parquet file: {_first_line(error)}") from error
        except ValueError as error:
            raise InputError(f"{path} is damaged: {error}") from error
        self.kind = self._find_kind()
        self.filled = {}
        for column in self.kind.columns:
            if column.source == "loader":
                if column.name not in (filled or {}):
                    raise InputError(
                        f"{path}: {self.kind.name} records belong to a run: load them from the run's folder"
                    )
                self.filled[column.name] = (filled or {})[column.name]
        self._check_columns()

    @property
    def rows(self) -> int:
        """The number of rows, according to the file's footer."""
        return int(self._file.metadata.num_rows)

    def batches(self) -> Iterator[pa.Table]:
        """Yield all rows, checked, in batches of at most `BATCH_ROWS`, with the kind's columns of files.

        InputError for bytes that cannot be decoded, `Contradiction` for a row that violates the description.
        """
        row = 1
        for pieces in _joined(self._pieces(self.kind.arrow_schema().names)):
            batch = self._conformed(pa.Table.from_batches(pieces), row)
            yield batch
            row += batch.num_rows
        pa.default_memory_pool().release_unused()  # the next step needs the memory

    def _pieces(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Read row group by row group: Arrow's own iteration keeps the data of all earlier groups.

        Uses a single thread, because each thread keeps memory for itself. Text stays in dictionaries until
        its length is known (store/load/cost.py).
        """
        row = 0
        try:
            for group in range(self._file.num_row_groups):
                stream = self._file.iter_batches(
                    batch_size=min(self._cost.rows[group], BATCH_ROWS),
                    row_groups=[group],
                    columns=columns,
                    use_threads=False,
                )
                for batch in stream:
                    for piece in cost.decoded(batch):
                        yield piece
                        row += piece.num_rows
        except cost.TooCostly as error:
            raise InputError(f"{self.path} is not a record file of firstflight: {error}") from error
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"{self.path} is damaged after row {row}: {_first_line(error)}") from error

    def content(self, also: Callable[[pa.Table], None] = lambda _: None) -> FileContent:
        """Read and check the whole file, and count its rows per unit. `also` checks each batch further."""
        counted = FileContent()
        for table in self.batches():
            also(table)
            self._count(table, counted)
        if sum(counted.rows.values()) != self.rows:
            raise InputError(
                f"{self.path}: its footer gives {self.rows} rows, it contains {sum(counted.rows.values())}"
            )
        return counted

    def stored(self, table: pa.Table) -> pa.Table:
        """Return a batch for the store: without derived columns, with the loader's columns."""
        for column in self.kind.columns:
            index = table.schema.get_field_index(column.name)
            if column.derived:
                table = table.remove_column(index)
            elif column.source == "loader":
                value = pa.repeat(pa.scalar(self.filled[column.name]), table.num_rows)
                table = table.append_column(column.name, value)
        return table

    def _find_kind(self) -> records.Kind:
        metadata = self._file.schema_arrow.metadata or {}
        name = metadata.get(_METADATA_KEY, b"").decode(errors="replace")
        name = name or records.of_stem(self.path.stem)
        try:
            kind = records.load(name)
        except records.DescriptionError as error:
            raise InputError(f"{self.path}: its record kind is unknown: {error}") from error
        if not kind.file_columns or not kind.stored:
            raise InputError(f"{self.path}: records of kind {name} are not loaded from files")
        return kind

    def _check_columns(self) -> None:
        have = self._file.schema_arrow.names
        want = self.kind.arrow_schema().names
        # A stage may have written the loader's columns; the loader's value replaces theirs.
        loaders = {column.name for column in self.kind.columns} - set(want)
        twice = sorted({name for name in have if have.count(name) > 1})
        if twice:
            raise Contradiction(
                f"{self.path} is not a {self.kind.name} file: it has {', '.join(twice)} twice"
            )
        missing = [name for name in want if name not in have]
        unknown = [name for name in have if name not in want and name not in loaders]
        if missing or unknown:
            faults = [f"lacks {', '.join(missing)}"] * bool(missing) + [
                f"has {', '.join(unknown)}, which the kind does not have"
            ] * bool(unknown)
            raise Contradiction(f"{self.path} is not a {self.kind.name} file: it {' and '.join(faults)}")

    def _conformed(self, table: pa.Table, first_row: int) -> pa.Table:
        columns = []
        for column in self.kind.file_columns:
            values = table.column(column.name)
            try:
                values = values.cast(column.arrow_type())
                if values.num_chunks > 1:
                    values = pa.chunked_array([values.combine_chunks()])
            except pa.ArrowException as error:
                raise Contradiction(f"{self.path}: column {column.name}: {_first_line(error)}") from error
            if not column.nullable:
                self._refuse(pc.is_null(values), column, "is null and must not be", first_row)
            if column.values:
                outside = pc.invert(pc.is_in(values, pa.array(column.values)))
                outside = pc.and_(outside, pc.is_valid(values))
                self._refuse(outside, column, f"is not one of {', '.join(column.values)}", first_row)
            columns.append(values)
        return pa.Table.from_arrays(columns, schema=self.kind.arrow_schema())

    def _refuse(self, bad: pa.ChunkedArray, column: records.Column, what: str, first_row: int) -> None:
        first = pc.index(bad, True).as_py()
        if first >= 0:
            count = pc.sum(bad).as_py()
            more = f" (and in {count - 1} more rows)" if count > 1 else ""
            raise Contradiction(f"{self.path}: row {first_row + first}: {column.name} {what}{more}")

    def _count(self, table: pa.Table, found: FileContent) -> None:
        from_file = [name for name in self.kind.unit if name not in self.filled]
        time = self.kind.time
        if time:  # as an integer: a Python datetime has no nanoseconds
            index = table.schema.get_field_index(time)
            table = table.set_column(index, time, table.column(time).cast(pa.int64()))
        aggregates: list[tuple[str | list[str], str]] = [([], "count_all")] + (
            [(time, "min"), (time, "max")] if time else []
        )
        try:
            groups = table.group_by(from_file).aggregate(aggregates).to_pylist()
        except UnicodeDecodeError as error:
            raise Contradiction(f"{self.path}: {', '.join(from_file)}: some text is not UTF-8") from error
        for group in groups:
            unit = tuple(
                self.filled[name] if name in self.filled else str(group[name]) for name in self.kind.unit
            )
            found.rows[unit] += group["count_all"]
            if time and group[f"{time}_min"] is not None:
                low, high = group[f"{time}_min"], group[f"{time}_max"]
                found.first[unit] = min(low, found.first.get(unit, low))
                found.last[unit] = max(high, found.last.get(unit, high))


def _opened(path: Path, dictionaries: Sequence[str]) -> pq.ParquetFile:
    """Open a Parquet file; the columns with the paths `dictionaries` are read as dictionaries."""
    return pq.ParquetFile(
        path,
        memory_map=False,
        pre_buffer=False,
        page_checksum_verification=True,
        read_dictionary=list(dictionaries),
    )


def rows_in(path: Path) -> int:
    """Return the number of rows according to the file's footer; 0 if it cannot be read."""
    try:
        return int(pq.read_metadata(path).num_rows)
    except (OSError, pa.ArrowException):
        return 0


def _joined(pieces: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Join small row groups: each batch is a part in the store, which later merges write again.

    A row group larger than `BATCH_BYTES` keeps batches of `BATCH_ROWS`.
    """
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for piece in pieces:
        if held and (rows + piece.num_rows > BATCH_ROWS or size + piece.nbytes > BATCH_BYTES):
            yield held
            held, rows, size = [], 0, 0
        held.append(piece)
        rows, size = rows + piece.num_rows, size + piece.nbytes
    if held:
        yield held


def _first_line(error: Exception) -> str:
    """Return the first line of an Arrow error; the rest is advice for programmers."""
    return str(error).strip().split("\n")[0].rstrip(".")
