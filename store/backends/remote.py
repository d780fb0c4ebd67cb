"""A ClickHouse server as the store, over its native protocol (clickhouse-driver)."""

from __future__ import annotations

import json
import logging
import random
import re
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from clickhouse_driver import errors as driver_errors

from firstflight.errors import FirstflightError, UsageError
from schemas.sql import Dialect
from store.address.url import ServerLocation, no_tables_message
from store.backends.driver import BlockClient
from store.base import FormattedAnswer, Parameters, QueryLimits
from store.engine import answers
from store.engine.session import EngineError, EngineSession
from store.errors import (
    ACCESS_DENIED,
    AUTHENTICATION_FAILED,
    READONLY,
    TRANSIENT,
    UNKNOWN_DATABASE,
    StoreError,
    StoreUnreachable,
    from_engine,
)
from store.protocol.blocks import NativeBlock, each_native
from store.protocol.columns import UnsupportedType
from store.protocol.wire import ProtocolError
from store.sql import identifier, literal
from store.statements import guard

if TYPE_CHECKING:
    import pyarrow as pa

Result = TypeVar("Result")

# The same settings as for an embedded store; reading adds `readonly`.
_SETTINGS: dict[str, object] = {"asterisk_include_alias_columns": 1, "join_use_nulls": 1}
# Rows must be on disk, on all replicas, before the load log records them.
_WRITE_SETTINGS: dict[str, object] = {"mutations_sync": 2, "alter_sync": 2, "async_insert": 0}
_READ_RETRY_S = 5.0
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.1, 5.0
_BROKEN = (
    driver_errors.NetworkError,
    driver_errors.SocketTimeoutError,
    driver_errors.ChecksumDoesntMatchError,
    driver_errors.UnexpectedPacketFromServerError,
    driver_errors.UnknownPacketFromServerError,
    driver_errors.PartiallyConsumedQueryError,
    ProtocolError,
    EOFError,
    OSError,
)

_CERTIFICATE = re.compile(r"certificate verify failed: (.*?)(?: \(_ssl|$)")

_log = logging.getLogger(__name__)


class ServerStore:
    """See `store.base.Store`.

    After a broken connection a statement is sent again, with growing pauses, for up to the location's
    `retry_for` seconds. Each insert has a token, so the server drops an insert that it has already applied.
    """

    def __init__(self, location: ServerLocation, *, write: bool, limits: QueryLimits | None = None) -> None:
        """Connect. StoreUnreachable if no server answers; UsageError for a wrong database or login.

        `limits` apply to a reader's queries, if the user may change settings.
        """
        self._limits = limits.settings() if limits else {}
        self._location = location
        self._write = write
        self.dialect = Dialect(location.database, location.cluster, location.sharded)
        self._local: EngineSession | None = None
        self._settings: dict[str, object] = {}
        self._client = BlockClient(location, "" if write else location.database)
        self._warned = self._answered = False
        if write:
            self._settings = _SETTINGS | self.dialect.settings | _WRITE_SETTINGS
            self._make_database()
            self._client.disconnect()
            self._client = BlockClient(location, location.database)
        else:
            self._settings = self._settings_of_a_reader()

    @property
    def location(self) -> str:
        """Host, port and database."""
        return self._location.public_url

    def execute(self, sql: str, parameters: Parameters | None = None) -> None:
        """Run one statement that returns no rows."""
        # One token for all attempts: rows that arrived with the first attempt are not added again.
        token = {"insert_deduplication_token": uuid.uuid4().hex} if sql.startswith("INSERT") else {}
        self._ask(sql, parameters, token)

    def rows(self, sql: str, parameters: Parameters | None = None) -> list[dict[str, Any]]:
        """Run a query and return one dict per row."""
        blocks = self._ask(sql, parameters)
        try:
            lines = answers.formatted(self._engine, blocks, "JSONEachRow").splitlines()
        except EngineError as error:
            raise from_engine(str(error), self.location) from error
        return [json.loads(line) for line in lines if line]

    def formatted(self, sql: str, output_format: str) -> FormattedAnswer:
        """Run a user's query; the local engine formats the answer."""
        try:
            parsed = guard.check_reading(self._engine, sql)
            blocks = self._ask(sql)
            format_name = answers.format_of(parsed) or output_format
            return answers.answer(answers.formatted(self._engine, blocks, format_name), format_name)
        except EngineError as error:
            raise from_engine(str(error), self.location) from error

    def insert(self, table: str, batch: pa.Table, token: str | None = None) -> None:
        """Add all rows of `batch`, once per `token`."""
        if not batch.num_rows:
            return
        names = ", ".join(identifier(name) for name in batch.column_names)
        token = token or uuid.uuid4().hex
        encoded: dict[tuple[str, ...], list[NativeBlock]] = {}

        def encode(header: NativeBlock) -> list[NativeBlock]:
            key = (*header.names, *header.types)
            if key not in encoded:
                encoded[key] = self._encoded(header, batch)
            return encoded[key]

        self._again_if_broken(
            lambda: self._client.insert(
                f"INSERT INTO {self.dialect.database}.{table} ({names}) VALUES",
                encode,
                self._settings | {"insert_deduplication_token": token},
            )
        )

    def count_in(self, batch: pa.Table, conditions: Sequence[str]) -> list[int]:
        """Count the rows of `batch` for which each SQL condition holds."""
        if not conditions:
            return []
        counts = ", ".join(f"countIf({condition})" for condition in conditions)
        try:
            answer = self._engine.run(f"SELECT {counts} FROM Python(records)", records=batch)
        except EngineError as error:
            raise from_engine(str(error), self.location) from error
        return [int(count) for count in answer.split()]

    def catch_up(self, table: str) -> None:
        """In a cluster, wait until the replicas that answer for `table` here have all its rows."""
        if self.dialect.cluster:
            self.execute(self.dialect.caught_up(table))

    @property
    def shared(self) -> bool:
        """True: other programs may write at the same time."""
        return True

    def close(self) -> None:
        """Close the connection."""
        self._client.disconnect()
        if self._local is not None:
            self._local.close()

    @property
    def _engine(self) -> EngineSession:
        """The local engine without tables, for types and formats."""
        if self._local is None:
            try:
                self._local = EngineSession()
            except EngineError as error:
                raise from_engine(str(error), self.location) from error
            self._local.set(answers.SETTINGS)
        return self._local

    def _make_database(self) -> None:
        try:
            self.execute(self.dialect.render("CREATE DATABASE IF NOT EXISTS ${database} ${on_cluster}"))
        except StoreError as error:
            # A user who may only load gets ACCESS_DENIED; the database must then exist already.
            if error.code != ACCESS_DENIED:
                raise

    def _settings_of_a_reader(self) -> dict[str, object]:
        """Return the settings for reading; empty for a user who may not change settings."""
        *_, answer = self._ask("SELECT toUInt8(getSetting('readonly')) AS readonly")
        rights = answer.values[0][0]
        settings = _SETTINGS | self.dialect.settings | self._limits
        return {} if rights == 1 else settings if rights == 2 else settings | {"readonly": 1}

    def _ask(
        self, sql: str, parameters: Parameters | None = None, settings: Mapping[str, object] | None = None
    ) -> list[NativeBlock]:
        given = {name: str(value) for name, value in (parameters or {}).items()}
        everything = self._settings | dict(settings or {})
        return self._again_if_broken(lambda: self._client.ask(sql, given, everything))

    def _encoded(self, header: NativeBlock, batch: pa.Table) -> list[NativeBlock]:
        """Encode the rows of `batch` in the columns and types that the server expects."""
        columns = ", ".join(
            f"CAST({identifier(name)}, {literal(type_name)}) AS {identifier(name)}"
            for name, type_name in zip(header.names, header.types, strict=True)
        )
        try:
            made = self._engine.run(
                f"SELECT {columns} FROM Python(records) SETTINGS max_threads = 1", "Native", records=batch
            )
        except EngineError as error:
            raise from_engine(str(error), self.location) from error
        return list(each_native(made))

    def _again_if_broken(self, statement: Callable[[], Result]) -> Result:
        """Run `statement`; if the connection breaks, reconnect and repeat it until the time limit."""
        until = time.monotonic() + (self._location.retry_for if self._write else _READ_RETRY_S)
        pause = _FIRST_PAUSE_S
        while True:
            try:
                result = statement()
            except driver_errors.ServerException as error:
                if error.code not in TRANSIENT:
                    raise self._refused(error) from error
                reason, last = str(self._refused(error)), error
            except UnsupportedType as error:
                self._client.disconnect()
                raise StoreError(f"the store refused: {error}") from error
            except _BROKEN as error:
                self._client.disconnect()
                untrusted = _untrusted(error)
                if untrusted:
                    raise UsageError(
                        f"the certificate of {self.location} is not trusted: {untrusted}"
                    ) from error
                reason, last = _reason_of(error), error
            except driver_errors.Error as error:
                self._client.disconnect()
                raise StoreError(f"{self.location} cannot be understood: {_reason_of(error)}") from error
            else:
                self._warned, self._answered = False, True
                return result
            if time.monotonic() + pause > until:
                unreachable = StoreUnreachable(
                    f"{self.location} does not answer ({reason}): nothing is lost, try again when it does"
                )
                unreachable.exit_status = 1 if self._answered else 2
                raise unreachable from last
            if self._write and not self._warned:
                _log.warning("firstflight: %s does not answer (%s): trying again", self.location, reason)
                self._warned = True
            # Random pauses, so that clients of the same server do not all reconnect at the same time.
            time.sleep(pause * random.uniform(0.7, 1.0))
            pause = min(pause * 2, _LAST_PAUSE_S)

    def _refused(self, error: driver_errors.ServerException) -> FirstflightError:
        message = error.message.partition("Stack trace:")[0]
        if error.code == AUTHENTICATION_FAILED:
            return UsageError(f"{self.location} refuses the user or the password of FIRSTFLIGHT_STORE")
        if error.code == UNKNOWN_DATABASE and not self._write:
            return UsageError(no_tables_message(self.location))
        if error.code == READONLY and self._write:
            return UsageError(f"{self.location} lets the user of FIRSTFLIGHT_STORE only read")
        return from_engine(f"Code: {error.code}. {message}", self.location)


def _untrusted(error: BaseException) -> str | None:
    """Return the certificate's fault, if that is the error; the driver keeps only the text."""
    match = _CERTIFICATE.search(str(error))
    return match[1] if match else None


def _reason_of(error: BaseException) -> str:
    """Describe the error in a few words."""
    if isinstance(error, driver_errors.SocketTimeoutError | TimeoutError):
        return "no answer in time"
    if isinstance(error, EOFError):
        return "the connection was closed"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, driver_errors.NetworkError):
        inner = error.__cause__ or error.__context__
        if isinstance(inner, OSError) and inner is not error:
            return _reason_of(inner)
    return str(error).split("\n")[0].removeprefix("Code: 210. ").strip(". ") or type(error).__name__
