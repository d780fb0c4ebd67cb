"""Multiply the runs in a store inside its engine: `python -m bench.storing.store_copies URL --times N`.

Loading a hundred million rows would take twenty minutes of CPU time. With `--of runs`, copies of a run have
different ids and are so many days earlier that no two runs share a month. With `--of names`, copies are part
of the same run with different names and addresses, so that each run has N times as many names. All other
values in a row are copied: outcomes, times, connection IDs. Use such a store only for measurements: its load
log names files that do not exist.
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

# In the order of copying; the load log is last, as after a load.
OF_RUNS = ("quic_probe", "target", "probe_day", "probe_unit", "run", "load_file")
OF_NAMES = ("quic_probe", "target")
_RUN_TIME = "%Y%m%dT%H%M%SZ"
# Columns that contain a run's id, possibly within a path or a unit.
_WITH_RUN = ("run", "unit", "source_file", "capture_file")
# A run becomes one part per month, as after merges.
_SETTINGS = "max_threads = 1, min_insert_block_size_rows = 4000000, min_insert_block_size_bytes = 0"


@dataclass(frozen=True)
class Copy:
    """How to copy rows of `run`: to run `of_run`, `days` earlier; or, with `number`, to different names."""

    run: str
    of_run: str
    days: int = 0
    number: int = 0

    def expression(self, column: str, kind: str) -> str:
        """Return the SQL for a column of the copy; `kind`: the column's type in the engine."""
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
            # store_rows.py takes addresses from 10.0.0.0/8 and 2001:db8::/32.
            four = f"replaceRegexpOne(ip, '^10[.]', '{10 + self.number}.')"
            return f"replaceOne({four}, '2001:db8:', '2001:db8:{self.number:x}:')"
        return column


def copies(runs: Sequence[str], times: int) -> Iterator[Copy]:
    """Yield `times` - 1 copies of each of `runs`, newest first; a copy precedes its original in time.

    Raises ValueError if a run's id does not start with its time.
    """
    began = {run: datetime.strptime(run[:16], _RUN_TIME).replace(tzinfo=UTC) for run in runs}
    months = (max(began.values()) - min(began.values())) // timedelta(days=30) + 1
    for number in range(1, times):
        days = 30 * months * number
        for run, at in sorted(began.items(), reverse=True):
            yield Copy(run, f"{at - timedelta(days=days):{_RUN_TIME}}{run[16:]}", days=days)


def multiply(store: Store, times: int, *, names: bool) -> int:
    """Copy all runs of the store until it has `times` as many rows; return its number of probes."""
    database = store.dialect.database
    runs = [row["run"] for row in store.rows(f"SELECT DISTINCT run FROM {database}.probe_day ORDER BY run")]
    if names:
        new_copies = [Copy(run, run, number=number) for run in runs for number in range(1, times)]
    else:
        new_copies = list(copies(runs, times))
    for table in OF_NAMES if names else OF_RUNS:
        columns = _columns(store, table)
        for copy in new_copies:
            _insert(store, table, columns, copy, own=names)
    if names:
        units = store.rows(f"SELECT DISTINCT run, vantage, repetition FROM {database}.probe_unit")
        derived.renew(store, "quic_probe", [_unit(unit) for unit in units])
    (probes,) = store.rows(f"SELECT count() AS n FROM {database}.quic_probe")
    return int(probes["n"])


def _insert(store: Store, table: str, columns: Mapping[str, str], copy: Copy, *, own: bool) -> None:
    name = f"{store.dialect.database}.{table}"
    cells = ", ".join(f"{copy.expression(column, kind)} AS {column}_" for column, kind in columns.items())
    # Copies of names are in the same run as their originals.
    originals = " AND NOT match(domain, '^c[0-9]+-')" if own else ""
    store.execute(
        f"INSERT INTO {name} ({', '.join(columns)}) SELECT {cells} FROM {name} "
        f"WHERE run = {literal(copy.run)}{originals} SETTINGS {_SETTINGS}"
    )


def _columns(store: Store, table: str) -> dict[str, str]:
    """Return the type of each stored column."""
    columns = store.rows(
        "SELECT name, type FROM system.columns WHERE database = {database:String} AND table = {table:String} "
        "AND default_kind NOT IN ('ALIAS', 'EPHEMERAL') ORDER BY position",
        {"database": store.dialect.database, "table": table},
    )
    return {row["name"]: row["type"] for row in columns}


def _unit(row: Mapping[str, object]) -> str:
    return " AND ".join(
        f"{name} = {value if isinstance(value, int) else literal(str(value))}" for name, value in row.items()
    )


def main() -> int:
    """Multiply, and print the number of probes."""
    parser = argparse.ArgumentParser(prog="bench.storing.store_copies")
    parser.add_argument("url")
    parser.add_argument("--times", type=int, required=True)
    parser.add_argument("--of", choices=("runs", "names"), default="runs")
    options = parser.parse_args()
    with open_store(options.url, write=True) as store:
        print(multiply(store, options.times, names=options.of == "names"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
