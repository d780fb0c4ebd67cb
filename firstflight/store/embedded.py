"""The embedded store: ClickHouse's engine inside this process (chDB), files in a folder."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chdb import ChdbError
from chdb.session import Session

from firstflight.errors import UsageError
from firstflight.store.base import Parameters
from firstflight.store.errors import from_engine
from schemas.sql import Dialect

if TYPE_CHECKING:
    import pyarrow as pa

# Results as interfaces.md wants them; computed (ALIAS) columns are shown by `SELECT *` like any other.
_SETTINGS = {
    "output_format_json_quote_64bit_integers": 0,
    "output_format_json_quote_64bit_floats": 0,
    "output_format_json_escape_forward_slashes": 0,
    "asterisk_include_alias_columns": 1,
    # A row without partner in a join has nothing to say: null, not the first word of an enumeration.
    "join_use_nulls": 1,
}
# Rows are on disk before the loader's books say so.
_WRITE_SETTINGS = {"mutations_sync": 2, "alter_sync": 2}


class EmbeddedStore:
    """See `firstflight.store.base.Store`. The caller holds the folder's lock."""

    def __init__(self, path: Path, database: str, *, write: bool) -> None:
        self._path = path
        self.dialect = Dialect(database)
        with _engine_stderr_kept() as said:
            try:
                self._session = Session(str(path))
            except (RuntimeError, ChdbError) as error:
                raise self._not_opened(str(error) + said()) from error
        settings = _SETTINGS | (_WRITE_SETTINGS if write else {})
        self._run("SET " + ", ".join(f"{name} = {value}" for name, value in settings.items()))
        if write:
            self._run(f"CREATE DATABASE IF NOT EXISTS {database}")
        if self._run("EXISTS DATABASE " + database, "TSV").strip() == b"1":
            self._run(f"USE {database}")
        if not write:
            # Last, since nothing can be set after it, not even this.
            self._run("SET readonly = 1")

    @property
    def place(self) -> str:
        """The folder."""
        return str(self._path)

    def execute(self, sql: str, parameters: Parameters | None = None) -> None:
        """Run one statement that gives no rows."""
        self._run(sql, "Null", parameters)

    def rows(self, sql: str, parameters: Parameters | None = None) -> list[dict[str, Any]]:
        """Run a query; one dict per row."""
        lines = self._run(sql, "JSONEachRow", parameters).splitlines()
        return [json.loads(line) for line in lines if line]

    def formatted(self, sql: str, output_format: str) -> bytes:
        """Run a query that came from a person; anything that would write, even a file, is refused."""
        # The engine writes INTO OUTFILE on the client's side, where `readonly` does not reach. Its own parser
        # tells: formatted, each clause begins a line and no literal or name holds a line break.
        parsed = self._run("SELECT formatQuery({query:String})", "RawBLOB", {"query": sql}).decode()
        if re.search(r"^INTO OUTFILE ", parsed, re.MULTILINE):
            raise UsageError(
                "INTO OUTFILE writes a file, and sql only reads: redirect standard output instead"
            )
        return self._run(sql, output_format)

    def insert(self, table: str, batch: pa.Table) -> None:
        """Add all rows of `batch` as one block."""
        if not batch.num_rows:
            return
        names = ", ".join(f"`{name}`" for name in batch.column_names)
        # One thread and no limit on the block: the rows become one part, which is there wholly or not at all.
        self._run(
            f"INSERT INTO {self.dialect.database}.{table} ({names}) SELECT {names} FROM Python(records) "
            f"SETTINGS max_threads = 1, max_insert_threads = 1, max_insert_block_size = {batch.num_rows}, "
            f"min_insert_block_size_rows = {batch.num_rows}, min_insert_block_size_bytes = 0",
            records=batch,
        )

    def count_in(self, batch: pa.Table, conditions: Sequence[str]) -> list[int]:
        """For each SQL condition, in how many rows of `batch` it holds."""
        if not conditions:
            return []
        counts = ", ".join(f"countIf({condition})" for condition in conditions)
        answer = self._run(f"SELECT {counts} FROM Python(records)", "TSV", records=batch)
        return [int(count) for count in answer.split()]

    def close(self) -> None:
        """Close it; others may open it then."""
        self._session.close()

    def _run(
        self,
        sql: str,
        output_format: str = "TSV",
        parameters: Parameters | None = None,
        records: pa.Table | None = None,  # noqa: ARG002  chDB finds it by this name: Python(records)
    ) -> bytes:
        given = {name: _escaped(str(value)) for name, value in (parameters or {}).items()}
        try:
            result = self._session.query(sql, output_format, params=given or None)
        except (ChdbError, RuntimeError) as error:
            raise from_engine(str(error), self.place) from error
        return bytes(result.bytes())

    def _not_opened(self, text: str) -> Exception:
        if "Cannot lock file" in text:
            return UsageError(
                f"the store in {self._path} is open in another program, which is not firstflight"
            )
        return from_engine(text, self.place)


def _escaped(text: str) -> str:
    """A parameter's text as the engine reads it, which is as a field of TSV."""
    for plain, escaped in (("\\", "\\\\"), ("\n", "\\n"), ("\t", "\\t"), ("\r", "\\r"), ("\0", "\\0")):
        text = text.replace(plain, escaped)
    return text


@contextmanager
def _engine_stderr_kept() -> Iterator[Any]:
    """Keep what the engine prints on standard error while it opens; the yielded function gives it.

    A store that cannot be opened is explained there and not in the exception.
    """
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    before = os.dup(2)
    os.dup2(writer, 2)
    os.close(writer)

    def said() -> str:
        try:
            return os.read(reader, 65536).decode(errors="replace")
        except BlockingIOError:
            return ""

    try:
        yield said
    finally:
        os.dup2(before, 2)
        os.close(before)
        os.close(reader)
