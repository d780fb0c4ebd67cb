"""Multiply the runs of a store inside its engine: `python -m bench.store_copies URL --times N`.

A hundred million rows through the loader would take twenty minutes of CPU time. The copies of a run
have other ids and lie so many days earlier that no two runs share a month (`--of runs`), or they are
the same run with other names and addresses (`--of names`), so that each run has N times as many names.
Everything else in a row is copied: outcomes, times, connection IDs. Only for measurements: the load log
names files that do not exist.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from store import Store, open_store
from store.load import derived
from store.sql import literal

# In the order of copying; the load log comes last, as after a load.
OF_RUNS = ("quic_probe", "target", "probe_day", "probe_unit", "run", "load_file")
OF_NAMES = ("quic_probe", "target")
_RUN_TIME = "%Y%m%dT%H%M%SZ"
# Columns that hold a run's id, alone or within a path or a unit.
_WITH_RUN = ("run", "unit", "source_file", "capture_file")
# A run becomes one part of each month, as merges leave it.
_SETTINGS = "max_threads = 1, min_insert_block_size_rows = 4000000, min_insert_block_size_bytes = 0"


@dataclass(frozen=True)
class Copy:
    """How rows of `run` change: they become `of_run`'s, `days` earlier; with `number`, other names."""

    run: str
    of_run: str
    days: int = 0
    number: int = 0

    def expression(self, column: str, kind: str) -> str:
        """Return the SQL of a column of the copy; `kind`: the column's type in the engine."""
        if self.number:
            return self._of_name(column)
        if column in _WITH_RUN:
            return f"replaceOne({column}, {literal(self.run)}, {literal(self.of_run)})"
        if "Date" in kind and "AggregateFunction" not in kind:
            return f"{column} - INTERVAL {self.days} DAY"
        return column

    def _of_name(self, column: str) -> str:
        if column == "domain":
            return f"concat('c{self.number}-', domain)"
        if column == "ip":
            # bench/store_rows.py takes addresses from 10.0.0.0/8 and 2001:db8::/32.
            four = f"replaceRegexpOne(ip, '^10[.]', '{10 + self.number}.')"
            return f"replaceOne({four}, '2001:db8:', '2001:db8:{self.number:x}:')"
        return column


def copies(runs: Sequence[str], times: int) -> Iterator[Copy]:
    """Yield `times` - 1 copies of each of `runs`, newest first, each series before the one that it copies.

    Raises ValueError if a run's id does not begin with its time.
    """
    began = {run: datetime.strptime(run[:16], _RUN_TIME).replace(tzinfo=UTC) for run in runs}
    months = (max(began.values()) - min(began.values())) // timedelta(days=30) + 1
    for number in range(1, times):
        days = 30 * months * number
        for run, at in sorted(began.items(), reverse=True):
            yield Copy(run, f"{at - timedelta(days=days):{_RUN_TIME}}{run[16:]}", days=days)


def multiply(store: Store, times: int, *, names: bool) -> int:
    """Copy all runs of the store until there are `times` as many rows; return its probes."""
    database = store.dialect.database
    runs = [row["run"] for row in store.rows(f"SELECT DISTINCT run FROM {database}.probe_day ORDER BY run")]
    if names:
        made = [Copy(run, run, number=number) for run in runs for number in range(1, times)]
    else:
        made = list(copies(runs, times))
    for table in OF_NAMES if names else OF_RUNS:
        columns = _columns(store, table)
        for copy in made:
            _insert(store, table, columns, copy, own=names)
    if names:
        units = store.rows(f"SELECT DISTINCT run, vantage, repetition FROM {database}.probe_unit")
        derived.renew(store, "quic_probe", [_unit(one) for one in units])
    (probes,) = store.rows(f"SELECT count() AS n FROM {database}.quic_probe")
    return int(probes["n"])


def _insert(store: Store, table: str, columns: Mapping[str, str], copy: Copy, *, own: bool) -> None:
    name = f"{store.dialect.database}.{table}"
    cells = ", ".join(f"{copy.expression(column, kind)} AS {column}_" for column, kind in columns.items())
    # Copies of names stand beside what they copy.
    originals = " AND NOT match(domain, '^c[0-9]+-')" if own else ""
    store.execute(
        f"INSERT INTO {name} ({', '.join(columns)}) SELECT {cells} FROM {name} "
        f"WHERE run = {literal(copy.run)}{originals} SETTINGS {_SETTINGS}"
    )


def _columns(store: Store, table: str) -> dict[str, str]:
    """Return the type of each column that is stored."""
    found = store.rows(
        "SELECT name, type FROM system.columns WHERE database = {database:String} AND table = {table:String} "
        "AND default_kind NOT IN ('ALIAS', 'EPHEMERAL') ORDER BY position",
        {"database": store.dialect.database, "table": table},
    )
    return {row["name"]: row["type"] for row in found}


def _unit(row: Mapping[str, object]) -> str:
    return " AND ".join(
        f"{name} = {value if isinstance(value, int) else literal(str(value))}" for name, value in row.items()
    )


def main() -> int:
    """Multiply, and print the number of probes."""
    parser = argparse.ArgumentParser(prog="bench.store_copies")
    parser.add_argument("url")
    parser.add_argument("--times", type=int, required=True)
    parser.add_argument("--of", choices=("runs", "names"), default="runs")
    options = parser.parse_args()
    with open_store(options.url, write=True) as store:
        print(multiply(store, options.times, names=options.of == "names"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
