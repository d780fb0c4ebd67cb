"""Bytes per probe row on disk, and rows loaded per second: `python -m bench store`.

Makes the record files of 4 vantage points x 3 repetitions x 83,334 names (bench/store_rows.py), loads them
with the production loader into an embedded store of its own, merges, and reads the size of the parts from the
file system and from the engine. The store is removed afterwards.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq

from bench import store_rows
from firstflight import loader
from firstflight.store import open_store

REPETITIONS = 3
LIMIT_BYTES = 60.0
_PARTS = "active AND database = currentDatabase() AND table = 'quic_probe'"


def main() -> int:
    """Measure and print; 1 if a row takes more than `LIMIT_BYTES`."""
    parser = argparse.ArgumentParser(prog="bench store")
    parser.add_argument("--names", type=int, default=83_334)
    parser.add_argument("--columns", action="store_true", help="also print the bytes of each column")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="firstflight-bench-") as folder:
        return _measure(Path(folder), options.names, columns=options.columns)


def _measure(folder: Path, names: int, *, columns: bool) -> int:
    url = f"chdb:{folder / 'store'}"
    paths = []
    for vantage, repetition, table in store_rows.tables(store_rows.Names(names, seed=1), REPETITIONS):
        path = folder / vantage / str(repetition) / "quic_probe.parquet"
        path.parent.mkdir(parents=True)
        pq.write_table(table, path, compression="zstd")
        paths.append(path)
    wall, cpu = time.monotonic(), _cpu_s()
    results = loader.load_files(paths, url)
    wall, cpu = time.monotonic() - wall, _cpu_s() - cpu
    rows = sum(result.in_store for result in results if isinstance(result, loader.Loaded))
    with open_store(url, write=True) as store:
        store.execute("OPTIMIZE TABLE quic_probe FINAL")
        (parts,) = store.rows(
            "SELECT count() AS parts, sum(rows) AS rows, sum(bytes_on_disk) AS bytes, "
            "sum(primary_key_size) AS keys, sum(marks_bytes) AS marks, "
            f"any(part_type) AS layout, groupArray(path) AS paths FROM system.parts WHERE {_PARTS}"
        )
        on_disk = sum(
            f.stat().st_size for path in parts["paths"] for f in Path(path).rglob("*") if f.is_file()
        )
        cost = store.rows(
            "SELECT column, sum(column_bytes_on_disk) AS bytes FROM system.parts_columns "
            f"WHERE {_PARTS} GROUP BY column ORDER BY bytes DESC"
        )
    assert parts["rows"] == rows == names * len(paths), "the store does not hold what was made"
    per_row = on_disk / rows
    print(
        f"{rows} probe rows: {len(store_rows.VANTAGES)} vantage points x {REPETITIONS} repetitions x {names} "
        "names,"
    )
    print("  connection IDs of 8 (client) and 20 (server) random bytes, random source ports and send times")
    print(
        f"bytes per row on disk: {per_row:.1f} (limit {LIMIT_BYTES:.0f}), all columns of quic_probe in one "
        "table,"
    )
    print(
        f"  after OPTIMIZE FINAL: {parts['parts']} part ({parts['layout']}), {on_disk} bytes in its files "
        f"(the engine says {parts['bytes']}),"
    )
    print(f"  primary index {parts['keys']} and marks {parts['marks']} bytes included")
    ids = sum(row["bytes"] for row in cost if row["column"] in ("client_cid", "server_cid"))
    print(f"  of which the connection IDs: {ids / rows:.1f}")
    if columns:
        for row in cost:
            print(f"  {row['column']:22}{row['bytes'] / rows:9.3f}")
    print(
        f"load: {rows / cpu:.0f} rows per CPU second (user + system), {rows / wall:.0f} per second of "
        f"wall time:\n  {len(paths)} Parquet files read, checked, inserted, counted by firstflight.loader, "
        "which also made the tables"
    )
    return int(per_row > LIMIT_BYTES)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
