"""Resolves watched names at the start and periodically. Keeps the last known addresses after a failure."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from firstflight.egress.current import LOOK_S, Trust
from firstflight.egress.permitted import Permitted
from firstflight.errors import FirstflightError, InputError
from firstflight.settings import Resolve
from firstflight.system import files
from firstflight.system.reporting import progress
from scanner.driver.choose import QTYPE_OF_FAMILY
from scanner.resolver.answer import QueryOutcome
from scanner.resolver.configured import Resolver
from scanner.resolver.names import Name
from scanner.resolver.pace import QueryPace
from scanner.resolver.query import QueryClient
from scanner.resolver.rows import rows
from schemas import records


class Addresses:
    """The first address of each name and family. Thread-safe. Each dns_answer record contains `common`.

    `lists`: the lists in force, which may forbid the resolver.
    """

    def __init__(
        self,
        names: Sequence[Name],
        families: Sequence[int],
        resolver: Resolver,
        settings: Resolve,
        lists: Permitted,
        common: dict[str, Any],
    ) -> None:
        self._names = names
        self._qtypes = {QTYPE_OF_FAMILY[family]: family for family in families}
        self._resolver, self._settings, self._common = resolver, settings, common
        self._lists = lists
        self._known: dict[tuple[str, int], str] = {}
        self._records: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def await_lists(self, check: Callable[[], None]) -> None:
        """Wait until the machine's opt-out list is confirmed. `check` is called meanwhile, and may raise."""
        while self._lists.look() < Trust.ALL:
            check()
            time.sleep(LOOK_S)

    def resolve(self) -> None:
        """Resolve all names once. InputError if a list forbids the resolver or it answers no query at all."""
        self._lists.look_until_complete()
        if self._lists.is_listed(self._resolver.address):
            raise InputError(
                f"the resolver {self._resolver.label} is on a block or opt-out list: name another one as "
                "[resolve] resolver"
            )
        answers = asyncio.run(self._query_all())
        outcomes = [outcome for _, by_qtype in answers for outcome in by_qtype.values()]
        for name, by_qtype in answers:
            with self._lock:
                self._records += rows(name, by_qtype, self._common)
                for qtype, outcome in by_qtype.items():
                    addresses = [record for record in outcome.records if isinstance(record, str)]
                    key = (name.domain, self._qtypes[qtype])
                    if addresses:
                        self._known[key] = addresses[0]
                    elif outcome.status in ("NXDOMAIN", "NODATA"):
                        self._known.pop(key, None)  # no longer exists; a failure would not prove that
        if outcomes and all(outcome.rcode is None for outcome in outcomes):
            raise InputError(
                f"the resolver {self._resolver.label} does not answer ({outcomes[0].status}): "
                "is [resolve] resolver right?"
            )

    def of(self, domain: str, family: int) -> str | None:
        """Return the last known address."""
        with self._lock:
            return self._known.get((domain, family))

    def resolve_every(self, seconds: float, out: Path) -> None:
        """Resolve again every `seconds` in a thread, until `close`. Write the answers to `out` each time."""

        def work() -> None:
            due = time.monotonic() + seconds
            while not self._closed.wait(max(0.0, due - time.monotonic())):
                due += seconds
                try:
                    self.resolve()
                except (FirstflightError, OSError) as error:
                    progress.print_line(f"addresses are not updated: {error}")
                if self._closed.is_set():
                    return  # the caller of `close` writes the rest
                try:
                    self.write(out)
                except (FirstflightError, OSError) as error:
                    progress.print_line(f"the resolver's answers wait to be written: {error}")

        self._thread = threading.Thread(target=work, name="addresses", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the thread. Waits for a pending query, at most until its time-outs."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join(self._settings.timeout_s * self._settings.attempts + 5)

    def write(self, path: Path) -> None:
        """Append the answers since the last call to a record file of kind dns_answer.

        Raise FirstflightError on failure; the next call then writes the answers.
        """
        schema = records.load("dns_answer").arrow_schema()
        with self._lock:
            table = pa.Table.from_pylist(self._records, schema=schema)
        if not table.num_rows:
            return
        appended = table.num_rows
        if path.is_file():
            table = pa.concat_tables([pq.ParquetFile(path).read().cast(schema), table])
        with files.replacing(path) as temporary:
            pq.write_table(table, temporary, compression="zstd")
        with self._lock:
            del self._records[:appended]

    async def _query_all(self) -> list[tuple[Name, dict[str, QueryOutcome]]]:
        pace = QueryPace(self._settings.rates()[0])
        semaphore = asyncio.Semaphore(self._settings.concurrency)

        async def query(name: Name) -> tuple[Name, dict[str, QueryOutcome]]:
            async with semaphore:
                asker = QueryClient(self._resolver, pace.turn, self._lists)
                try:
                    return name, {qtype: await asker.ask(name.domain, qtype) for qtype in self._qtypes}
                finally:
                    await asker.close()

        return list(await asyncio.gather(*(query(name) for name in self._names)))
