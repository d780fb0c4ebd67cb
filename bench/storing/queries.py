"""Time each named query on a store, as JSON lines: `python -m bench.storing.queries URL`.

Runs each query `WARM` times (`--warm N`) on an open store, after a first run that does not count. With
--cold, also runs it once on a newly opened store, after dropping the store's files from the page cache.
Parameters have their defaults, so a query covers the whole store; a required date is the middle of the
store's days. CPU time includes only this process, which also runs an embedded engine. database.py
prints the results as a table.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from reports import query
from store import Store, open_store
from store.errors import StoreError

WARM = 5
# Views that are queried without a filter.
VIEWS = ("table1", "table1_strict", "iack_by_cdn", "probes_by_day")


@dataclass(frozen=True)
class Timed:
    """A query's result, with medians of warm times. `cold_s`, `cpu_s`: `None` if not measured.

    `refused`: the store's error; then `rows` and the times are 0.
    """

    name: str
    rows: int
    cold_s: float | None
    wall_s: float
    cpu_s: float | None
    refused: str | None = None


def measure(url: str, *, cold: bool, warm: int = WARM, only: Sequence[str] = ()) -> Iterator[Timed]:
    """Time every named query and view of VIEWS, or only the queries in `only`, one after the other."""
    embedded = url.startswith("chdb:")
    with open_store(url) as store:
        questions = _questions(store)
    if only:
        questions = {name: questions[name] for name in only}
    colds: dict[str, float] = {}
    if cold and embedded:
        for name, sql in questions.items():
            _forget(Path(url.removeprefix("chdb:")))
            with open_store(url) as store, suppress(StoreError):  # reported below
                colds[name] = _time(store, sql)[0]
    with open_store(url) as store:
        for name, sql in questions.items():
            try:
                *_, rows = _time(store, sql)
            except StoreError as error:
                # Exceeding a query's limits is a result.
                yield Timed(name, 0, None, 0, 0 if embedded else None, str(error))
                continue
            times = [_time(store, sql) for _ in range(warm)]
            yield Timed(
                name=name,
                rows=rows,
                cold_s=colds.get(name),
                wall_s=statistics.median(wall for wall, _, _ in times),
                cpu_s=statistics.median(cpu for _, cpu, _ in times) if embedded else None,
            )


def _questions(store: Store) -> Mapping[str, str]:
    """Return each query's name and SQL."""
    database = store.dialect.database
    (days,) = store.rows(f"SELECT min(day) AS first, max(day) - min(day) AS days FROM {database}.probe_day")
    (middle,) = store.rows(f"SELECT toDate('{days['first']}') + {int(days['days']) // 2} AS day")
    questions = {}
    for name in query.names():
        named_query = query.load(name)
        given = {
            p.name: str(middle["day"])
            for p in named_query.parameters
            if p.default is None and p.type == "Date"
        }
        questions[name] = named_query.rendered(given, store.dialect)
    return questions | {f"view {name}": f"SELECT * FROM {database}.{name}" for name in VIEWS}


def _time(store: Store, sql: str) -> tuple[float, float, int]:
    """Return wall and CPU seconds for a query as `firstflight query` runs it, and the answer's rows."""
    wall, cpu = time.monotonic(), _cpu_s()
    answer = store.formatted(sql, "JSONEachRow").content
    return time.monotonic() - wall, _cpu_s() - cpu, answer.count(b"\n")


def _forget(folder: Path) -> None:
    """Drop a store's files from the page cache."""
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):  # merged away meanwhile
            if path.is_file():
                handle = os.open(path, os.O_RDONLY)
                try:
                    os.fsync(handle)
                    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
                finally:
                    os.close(handle)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> int:
    """Measure and print a line per query."""
    parser = argparse.ArgumentParser(prog="bench.storing.queries")
    parser.add_argument("url")
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--warm", type=int, default=WARM, help="times to run each query; the median counts")
    parser.add_argument("--only", nargs="+", default=(), help="names of queries; a view as 'view NAME'")
    options = parser.parse_args()
    for timed in measure(options.url, cold=options.cold, warm=options.warm, only=options.only):
        print(json.dumps(asdict(timed)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
