"""ClickHouse's engine inside this process (chDB), for the embedded store, its server and the driver.

A process opens one folder, or no folder (`MEMORY`), and any number of sessions in it. Each session has
separate settings, current database and temporary tables. Sessions run concurrently, with one query at a time
each.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from firstflight.errors import FirstflightError, causes
from firstflight.system import open_files
from store.engine import access
from store.errors import plain
from store.sql import field, literal

# Instants without a time zone are UTC, whatever the machine's zone. The engine reads TZ when it is imported,
# and does not start if it cannot parse the value. Its allocator returns pages that were free for a tenth of a
# second. The default is five seconds, and the memory of consecutive queries would accumulate.
_WHILE_IMPORTED = {"TZ": "UTC", "JE_MALLOC_CONF": "dirty_decay_ms:100,muzzy_decay_ms:0"}
_before = {name: os.environ.get(name) for name in _WHILE_IMPORTED}
os.environ.update(_WHILE_IMPORTED)
open_files.raise_limit()


def _not_started(error: BaseException) -> str:
    # chDB reports each library that it cannot load as a missing package. The first error has the reason.
    *_, first = causes(error)
    return (
        f"ClickHouse's engine (chDB) does not start: {plain(str(first))}; check the free memory and the "
        "folder for temporary files"
    )


# chDB works without pyarrow. It imports pyarrow only for answers as Arrow objects, which this code does not
# use, and the import takes a third of the CPU time for a short query. `None` makes the import fail.
_without_pyarrow = sys.modules.setdefault("pyarrow", None) is None  # type: ignore[arg-type]
try:
    from chdb import ChdbError
    from chdb.state.sqlitelike import Connection
except ModuleNotFoundError:
    raise
except (ImportError, OSError, RuntimeError) as _error:
    raise FirstflightError(open_files.sentence(_error) or _not_started(_error)) from _error
finally:
    if _without_pyarrow:
        del sys.modules["pyarrow"]
    for _name, _value in _before.items():
        if _value is None:
            del os.environ[_name]
        else:
            os.environ[_name] = _value

if TYPE_CHECKING:
    import pyarrow as pa

MEMORY = ":memory:"
# Standard error belongs to the whole process.
_stderr_lock = threading.Lock()
# The engine streams only answers of SELECT, and reports this before it starts the query.
_NO_STREAM = "Streaming query is not supported for query"


class EngineError(Exception):
    """The engine refused a statement; the text is the engine's message."""


class EngineSession:
    """One session of the engine."""

    def __init__(self, path: str = MEMORY, role: access.Role = access.FORMATTER) -> None:
        """Open a session in the folder `path`. If that fails, EngineError contains all output of the engine.

        `role` applies to the process while it has the folder open: the first session's role counts.
        """
        with _stderr_lock, _captured_stderr() as captured:
            try:
                self._connection = Connection(f"{path}?config-file={_configuration(role)}")
            except (RuntimeError, ChdbError) as error:
                raise EngineError(str(error) + captured()) from error

    def run(
        self,
        sql: str,
        output_format: str = "TSV",
        parameters: Mapping[str, str] | None = None,
        records: pa.Table | None = None,  # noqa: ARG002  chDB finds it by this name: Python(records)
    ) -> bytes:
        """Run one statement and return the whole answer. `parameters` are texts escaped by `sql.field`."""
        try:
            result = self._connection.query(sql, output_format, params=dict(parameters or {}) or None)
        except (ChdbError, RuntimeError) as error:
            raise EngineError(str(error)) from error
        return bytes(result.bytes())

    def stream(
        self, sql: str, output_format: str, parameters: Mapping[str, str] | None = None
    ) -> Generator[bytes, None, None]:
        """Run one statement and yield the answer block by block; closing the generator stops the query."""
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

    def on_progress(self, report: Callable[[Mapping[str, int]], None] | None) -> None:
        """Call `report` about ten times a second, in the query's thread, with sums since the query began."""
        self._connection.set_progress_callback(report)

    def set(self, settings: Mapping[str, object]) -> None:
        """Set settings of the session; quotes texts."""
        if settings:
            pairs = (
                f"{name} = {literal(value) if isinstance(value, str) else value}"
                for name, value in settings.items()
            )
            self.run(f"SET {', '.join(pairs)}")

    def formatted(self, sql: str) -> str:
        """Return `sql` as the engine's parser prints it: one clause per line, without comments."""
        return self.run("SELECT formatQuery({query:String})", "RawBLOB", {"query": field(sql)}).decode()

    def close(self) -> None:
        """End the session; the last one releases the folder."""
        self._connection.close()


@cache
def _configuration(role: access.Role) -> str:
    return access.configured(role)


@contextmanager
def _captured_stderr() -> Iterator[Any]:
    """Capture standard error while the engine opens a store; the yielded function returns the text.

    The engine explains there, and not in the exception, why it cannot open a store.
    """
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    before = os.dup(2)
    os.dup2(writer, 2)
    os.close(writer)

    def captured() -> str:
        try:
            return os.read(reader, 65536).decode(errors="replace")
        except BlockingIOError:
            return ""

    try:
        yield captured
    finally:
        os.dup2(before, 2)
        os.close(before)
        os.close(reader)
