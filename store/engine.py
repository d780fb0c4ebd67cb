"""ClickHouse's engine inside this process (chDB): for the embedded store, its server and the driver's side.

One process opens one folder, or none (`MEMORY`), and within it any number of sessions, each with settings, a
current database and temporary tables of its own; sessions run beside each other, one query at a time each.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from store import access
from store.sql import field, literal

# Points in time without a time zone of their own are UTC, whatever the machine's is; the engine takes TZ when
# it is imported, and does not start with forms of it that it does not know.
_zone = os.environ.get("TZ")
os.environ["TZ"] = "UTC"
try:
    from chdb import ChdbError
    from chdb.state.sqlitelike import Connection
finally:
    if _zone is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = _zone

if TYPE_CHECKING:
    import pyarrow as pa

MEMORY = ":memory:"
# Standard error belongs to the whole process.
_opening = threading.Lock()
# The engine streams the answers of SELECT only, and says so before it begins.
_NO_STREAM = "Streaming query is not supported for query"


class EngineError(Exception):
    """The engine refused; the text is its own."""


class Engine:
    """One session."""

    def __init__(self, path: str = MEMORY, role: access.Role = access.FORMATTER) -> None:
        """Open a session in the folder `path`; EngineError with all that the engine says if it cannot.

        `role` is that of the process while it has the folder open: the first session's counts.
        """
        with _opening, _stderr_kept() as said:
            try:
                self._connection = Connection(f"{path}?config-file={_configuration(role)}")
            except (RuntimeError, ChdbError) as error:
                raise EngineError(str(error) + said()) from error

    def run(
        self,
        sql: str,
        output_format: str = "TSV",
        parameters: Mapping[str, str] | None = None,
        records: pa.Table | None = None,  # noqa: ARG002  chDB finds it by this name: Python(records)
    ) -> bytes:
        """Run one statement and give its whole answer. `parameters` are texts as `sql.field` gives them."""
        try:
            result = self._connection.query(sql, output_format, params=dict(parameters or {}) or None)
        except (ChdbError, RuntimeError) as error:
            raise EngineError(str(error)) from error
        return bytes(result.bytes())

    def stream(
        self, sql: str, output_format: str, parameters: Mapping[str, str] | None = None
    ) -> Generator[bytes, None, None]:
        """Run one statement and give its answer piece by piece, a block each; closing it ends the query."""
        try:
            stream = self._connection.send_query(sql, output_format, params=dict(parameters or {}) or None)
        except (ChdbError, RuntimeError) as error:
            if _NO_STREAM not in str(error):
                raise EngineError(str(error)) from error
            yield self.run(sql, output_format, parameters)
            return
        try:
            for piece in stream:
                yield bytes(piece.bytes())
        except (ChdbError, RuntimeError) as error:
            raise EngineError(str(error)) from error
        finally:
            stream.close()

    def on_progress(self, told: Callable[[Mapping[str, int]], None] | None) -> None:
        """Call `told` about ten times a second, in the query's thread, with sums since the query began."""
        self._connection.set_progress_callback(told)

    def set(self, settings: Mapping[str, object]) -> None:
        """Set settings of the session; texts are quoted here."""
        if settings:
            pairs = (
                f"{name} = {literal(value) if isinstance(value, str) else value}"
                for name, value in settings.items()
            )
            self.run(f"SET {', '.join(pairs)}")

    def formatted(self, sql: str) -> str:
        """`sql` as the engine's parser understands it: each clause on lines of its own, comments gone."""
        return self.run("SELECT formatQuery({query:String})", "RawBLOB", {"query": field(sql)}).decode()

    def close(self) -> None:
        """End the session; the folder is free when all sessions have ended."""
        self._connection.close()


@cache
def _configuration(role: access.Role) -> str:
    return access.configured(role)


@contextmanager
def _stderr_kept() -> Iterator[Any]:
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
