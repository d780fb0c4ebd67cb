"""The embedded store: ClickHouse's engine inside this process (chDB), files in a folder."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firstflight.errors import UsageError
from schemas.sql import Dialect
from store.base import FormattedAnswer, Parameters, QueryLimits
from store.engine import access, answers
from store.engine.session import EngineError, EngineSession
from store.errors import from_engine
from store.sql import field, literal
from store.statements import guard, prepared

if TYPE_CHECKING:
    import pyarrow as pa

# `SELECT *` includes computed (ALIAS) columns.
_SETTINGS = {
    **answers.SETTINGS,
    "asterisk_include_alias_columns": 1,
    # A join without match yields null, not an enumeration's first value.
    "join_use_nulls": 1,
    # A GROUP BY with a larger state uses files in the store's folder. If it groups names, its state is as
    # large as the run: with twice this limit a report on a million names needs 25 MB more
    # (docs/measured/campaign.md).
    "max_bytes_before_external_group_by": 32 << 20,
}
# Rows must be on disk before the load log records them.
_WRITE_SETTINGS = {"mutations_sync": 2, "alter_sync": 2}
# After a batch of this size, or a query of this duration, the engine's allocator returns freed memory.
# Otherwise it keeps pages until the thread that used them runs again, so memory grows with the number of
# threads.
_PURGED_BYTES = 1 << 20
_PURGED_AFTER_S = 0.05


class EmbeddedStore:
    """See `store.base.Store`. The caller holds the folder's lock."""

    def __init__(self, path: Path, database: str, *, write: bool, limits: QueryLimits | None = None) -> None:
        """Open the store in the folder `path`; UsageError or StoreError if it cannot be opened.

        `limits` apply to a reader's queries, not to a writer's statements.
        """
        self._path = path
        self._reading = _SETTINGS | (limits.settings() if limits else {})
        self.dialect = Dialect(database)
        try:
            self._engine = EngineSession(str(path), access.LOADER if write else access.READER)
        except EngineError as error:
            raise self._not_opened(str(error)) from error
        try:
            prepared.check(self._engine, self.location)
            if write:
                self._engine.set(_SETTINGS | _WRITE_SETTINGS)
                self._engine.run(f"CREATE DATABASE IF NOT EXISTS {database}")
                self._engine.run(f"USE {database}")
            else:
                self._limit_to_reading(self._engine, self._reading)
        except EngineError as error:
            self._engine.close()
            raise from_engine(str(error), self.location) from error
        except UsageError:
            self._engine.close()
            raise

    @property
    def location(self) -> str:
        """The store's folder."""
        return str(self._path)

    @property
    def shared(self) -> bool:
        """False: the folder's lock excludes other programs."""
        return False

    def execute(self, sql: str, parameters: Parameters | None = None) -> None:
        """Run one statement that returns no rows."""
        self._run(sql, "Null", parameters)

    def rows(self, sql: str, parameters: Parameters | None = None) -> list[dict[str, Any]]:
        """Run a query and return one dict per row."""
        started_s = time.monotonic()
        lines = self._run(sql, "JSONEachRow", parameters).splitlines()
        if time.monotonic() - started_s >= _PURGED_AFTER_S:
            self._return_memory()
        return [json.loads(line) for line in lines if line]

    def formatted(self, sql: str, output_format: str) -> FormattedAnswer:
        """Run a user's query; refuse it if it would read or write outside the store."""
        try:
            parsed = guard.check_reading(self._engine, sql)
        except EngineError as error:
            raise from_engine(str(error), self.location) from error
        format_name = answers.format_of(parsed) or output_format
        try:
            # A separate session, because the first session's settings are fixed.
            session = EngineSession(str(self._path), access.READER)
            try:
                self._limit_to_reading(session, self._reading | answers.settings_for(format_name))
                return answers.answer(session.run(sql, output_format), format_name)
            finally:
                session.close()
        except EngineError as error:
            raise from_engine(str(error), self.location) from error

    def _limit_to_reading(self, session: EngineSession, settings: Mapping[str, object]) -> None:
        """Set a session's settings and database, and refuse changes from now on."""
        session.set(settings)
        if session.run(f"EXISTS DATABASE {self.dialect.database}").strip() == b"1":
            session.run(f"USE {self.dialect.database}")
        session.set({"readonly": 1})  # last: no setting can be changed afterwards

    def insert(self, table: str, batch: pa.Table, token: str | None = None) -> None:
        """Add all rows of `batch` as one block."""
        if not batch.num_rows:
            return
        names = ", ".join(f"`{name}`" for name in batch.column_names)
        # One thread and no limit on the block: the rows become one part, so the insert is atomic.
        # Without a token, tables with a deduplication window drop rows equal to earlier ones.
        self._run(
            f"INSERT INTO {self.dialect.database}.{table} ({names}) SELECT {names} FROM Python(records) "
            f"SETTINGS max_threads = 1, max_insert_threads = 1, max_insert_block_size = {batch.num_rows}, "
            f"min_insert_block_size_rows = {batch.num_rows}, min_insert_block_size_bytes = 0, "
            f"insert_deduplication_token = {literal(token or uuid.uuid4().hex)}",
            records=batch,
        )
        if batch.nbytes >= _PURGED_BYTES:
            self._return_memory()

    def count_in(self, batch: pa.Table, conditions: Sequence[str]) -> list[int]:
        """Count the rows of `batch` for which each SQL condition holds."""
        if not conditions:
            return []
        counts = ", ".join(f"countIf({condition})" for condition in conditions)
        answer = self._run(f"SELECT {counts} FROM Python(records)", "TSV", records=batch)
        return [int(count) for count in answer.split()]

    def catch_up(self, table: str) -> None:
        """Do nothing: no other program writes."""

    def close(self) -> None:
        """Close the store, so that other programs can open it."""
        self._engine.close()

    def _return_memory(self) -> None:
        """Make the engine's allocator return free memory.

        Uses a separate session, because a read-only session may not do this.
        """
        session = EngineSession(str(self._path), access.READER)
        try:
            session.run("SYSTEM JEMALLOC PURGE")
        except EngineError as error:
            raise from_engine(str(error), self.location) from error
        finally:
            session.close()

    def _run(
        self,
        sql: str,
        output_format: str = "TSV",
        parameters: Parameters | None = None,
        records: pa.Table | None = None,
    ) -> bytes:
        given = {name: field(str(value)) for name, value in (parameters or {}).items()}
        try:
            return self._engine.run(sql, output_format, given, records)
        except EngineError as error:
            raise from_engine(str(error), self.location) from error

    def _not_opened(self, text: str) -> Exception:
        if "Cannot lock file" in text:
            return UsageError(
                f"the store in {self._path} is open in another program, which is not firstflight"
            )
        return from_engine(text, self.location)
