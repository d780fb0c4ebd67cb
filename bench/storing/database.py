"""Measure the database with ten million probes: `python -m bench database`.

Makes ten monthly runs (store_rows.py: four vantage points, two days each, the lab's answers). Lets
`firstflight load` load the first run and then the others, once with clickhouse-driver through `store serve`
and once into an embedded store (`--embedded-only`: only the embedded store). Then measures the embedded
store: the report page, the size of the table, and the time of each named query (queries.py).

With `--times N`, the bench then copies rows inside the engine until the store has N times as many
(store_copies.py), and measures the CPU time of the queries again: `--times 10` makes a hundred million
probes in 5 GB. `--result FILE` writes the costs of loading to FILE, `--queries-result FILE` the times of
the queries.

CPU time and memory are totals of whole processes. Goals: at most `LIMIT_BYTES` per row; each named query in
less than `LIMIT_S` on two cores over ten million probes, by median wall time or, on a busy machine, by CPU
time.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import process, results
from bench.process import Used
from bench.storing import query_lines

RESULT, QUERIES_RESULT = "store-load", "bench-queries"
# The size of a row in the result file, as loaded and after merges.
LOADED, MERGED = "a row as loaded", "a row after merges, with all columns and indexes"
LIMIT_BYTES = 60.0
LIMIT_S = 1.0
_FIRSTFLIGHT = [sys.executable, "-m", "cli"]
Times = dict[str, dict[str, Any]]


def main() -> int:
    """Measure and print; return the number of goals missed."""
    parser = argparse.ArgumentParser(prog="bench database")
    parser.add_argument("--rows", type=int, default=10_000_000, help="probes, all runs together")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--embedded-only", action="store_true", help="skip the store behind a server")
    parser.add_argument("--columns", action="store_true", help="also print the bytes of each column")
    parser.add_argument("--folder", type=Path, help="working folder: 200 bytes per probe (default: TMPDIR)")
    parser.add_argument(
        "--times", type=int, default=1, help="also time the queries with N times as many probes"
    )
    results.add_option(parser)
    parser.add_argument("--queries-result", type=Path, metavar="FILE", help="write the times of the queries")
    options = parser.parse_args()
    file = results.begin(parser, options.result, RESULT)
    queries_file = results.begin(parser, options.queries_result, QUERIES_RESULT)
    if options.queries_result is not None and not query_lines.right_size(options.rows, times=options.times):
        parser.error("--queries-result needs ten million --rows, and --times 10 if given")
    with tempfile.TemporaryDirectory(prefix="firstflight-bench-", dir=options.folder) as name:
        return _measure(Path(name), options, file, queries_file)


def _measure(
    folder: Path, options: argparse.Namespace, file: results.ResultFile, queries_file: results.ResultFile
) -> int:
    """Make, load and query; return the number of missed goals."""
    os.environ["FIRSTFLIGHT_RUNS"] = str(folder / "runs")
    url = f"chdb:{folder / 'embedded'}"
    versions = results.packages("chdb", "clickhouse-driver")
    values = results.Values()
    runs = _make_runs(folder, options.rows, options.runs)
    if not options.embedded_only:
        _load_served(folder / "served", runs, values)
        shutil.rmtree(folder / "served")
    missed = _load_embedded(folder, url, runs, values, columns=options.columns)
    file.write(values.lines, versions)
    found = _queries(folder, url, "--cold")
    missed += _tell_queries(sum(runs.values()), found)
    found_more = None
    if options.times > 1:
        more = _multiply(folder, url, options.times)
        # Without a goal, so each query runs only twice.
        found_more = _queries(folder, url, "--warm", "1")
        _tell_queries(more, found_more)
    queries_file.write(query_lines.lines(found, found_more), versions)
    return missed


def _multiply(folder: Path, url: str, times: int) -> int:
    """Copy the runs of the embedded store until it has `times` as many; return its number of probes."""
    counted = folder / "probes.txt"
    used = process.run(
        [sys.executable, "-m", "bench.storing.store_copies", url, "--times", str(times)],
        quiet=True,
        out=counted,
    )
    probes = int(counted.read_text())
    size = sum(path.stat().st_size for path in (folder / "embedded").rglob("*") if path.is_file())
    print(
        f"{probes} probes after copying inside the engine in {used.cpu_s:.0f} CPU s, "
        f"{used.peak_mb:.0f} MB; the store takes {size / 1e9:.2f} GB; {process.load()}",
        flush=True,
    )
    return probes


def _make_runs(folder: Path, rows: int, runs: int) -> dict[str, int]:
    """Make the runs; return id -> probes, oldest first."""
    runs_file = folder / "runs.txt"
    argv = [sys.executable, "-m", "bench.storing.store_rows", str(folder / "runs")]
    used = process.run([*argv, "--rows", str(rows), "--runs", str(runs)], out=runs_file)
    probes_of_runs = {run: int(probes) for run, probes in map(str.split, runs_file.read_text().splitlines())}
    size = sum(path.stat().st_size for path in (folder / "runs").rglob("*.parquet"))
    print(
        f"{sum(probes_of_runs.values())} probes in {len(probes_of_runs)} runs a month apart, "
        "4 vantage points x 2 days each,\n"
        f"  made in {used.cpu_s:.0f} CPU s: {size / 1e6:.0f} MB of Parquet; {process.load()}",
        flush=True,
    )
    return probes_of_runs


def _load_embedded(
    folder: Path, url: str, runs: Mapping[str, int], values: results.Values, *, columns: bool
) -> int:
    """Load into an embedded store, and measure its report page and its size; return the missed goals."""
    oldest, *others = runs
    _tell_load("embedded, first run", runs[oldest], _load(url, [oldest]), values)
    _tell_load("embedded, other runs", sum(runs[run] for run in others), _load(url, others), values)
    page = folder / "page"
    used = process.run([*_FIRSTFLIGHT, "report", "--out", page], env=_env(url))
    *_, newest = runs.values()
    print(
        f"report page of the newest run ({newest} of these probes): "
        f"{used.cpu_s:.1f} CPU s, {used.wall_s:.1f} s wall, {used.peak_mb:.0f} MB, "
        f"{(page / 'index.html').stat().st_size / 1000:.0f} kB",
        flush=True,
    )
    values.add(f"report page of a run of {newest:,} probes", used.cpu_s, "CPU s")
    values.add("the report page: resident memory", used.peak_mb, "MB")
    return _size(url, sum(runs.values()), values, columns=columns)


def _load_served(store: Path, runs: Mapping[str, int], values: results.Values) -> None:
    """Load through the driver and the server."""
    oldest, *others = runs
    with _serving(store) as (pid, url):
        for label, some in (
            ("through the server, first run", [oldest]),
            ("through the server, other runs", others),
        ):
            before = process.cpu_s(pid)
            used = _load(url, some)
            server_s = process.cpu_s(pid) - before
            _tell_load(label, sum(runs[run] for run in some), used, values, server_s=server_s)
        values.add("the server: resident memory", process.peak_mb(pid), "MB")
        print(f"  the server's peak: {process.peak_mb(pid):.0f} MB resident", flush=True)


@contextmanager
def _serving(store: Path) -> Iterator[tuple[int, str]]:
    """Run `firstflight store serve` on a free port; yield its process id and store URL."""
    arguments = [*_FIRSTFLIGHT, "store", "serve", "--no-password", "--port", "0"]
    with process.listening(arguments, _env(f"chdb:{store}")) as (pid, address):
        yield pid, f"clickhouse://{address}/firstflight"


def _load(url: str, runs: Sequence[str]) -> Used:
    return process.run([*_FIRSTFLIGHT, "load", *runs], quiet=True, env=_env(url))


def _env(url: str) -> dict[str, str]:
    return os.environ | {"FIRSTFLIGHT_STORE": url}


def _tell_load(
    where: str, probes: int, used: Used, values: results.Values, server_s: float | None = None
) -> None:
    cpu_s = used.cpu_s + (server_s or 0)
    shared = "" if server_s is None else f" (loader {used.cpu_s:.1f}, server {server_s:.1f})"
    values.add(f"load, {where}: rows per CPU second", probes / cpu_s)
    if server_s is not None:
        values.add(f"load, {where}: the server's share of the CPU time", 100 * server_s / cpu_s, "%")
    values.add(f"load, {where}: resident memory of the loader", used.peak_mb, "MB")
    print(
        f"load, {where}: {probes} probes in {cpu_s:.1f} CPU s{shared}: {probes / cpu_s:.0f} per CPU second, "
        f"{probes / used.wall_s:.0f} per second of wall time,\n  "
        f"peak of the loader {used.peak_mb:.0f} MB; {process.load()}",
        flush=True,
    )


def _queries(folder: Path, url: str, *options: str) -> Times:
    lines = folder / "queries.jsonl"
    process.run([sys.executable, "-m", "bench.storing.queries", url, *options], out=lines)
    return {query["name"]: query for query in map(json.loads, lines.read_text().splitlines())}


def _size(url: str, rows: int, values: results.Values, *, columns: bool) -> int:
    """Print bytes per row as loaded and as merged; return 1 if they are above the limit."""
    from store import open_store  # imports the engine, so only after the measured programs

    active = "active AND database = currentDatabase() AND table = 'quic_probe'"
    parts = (
        "SELECT count() AS parts, sum(rows) AS rows, sum(bytes_on_disk) AS bytes, groupArray(path) AS paths, "
        f"sum(primary_key_size) AS keys, sum(marks_bytes) AS marks FROM system.parts WHERE {active}"
    )
    with open_store(url, write=True) as store:
        (loaded,) = store.rows(parts)
        store.execute("OPTIMIZE TABLE quic_probe FINAL")
        (merged,) = store.rows(parts)
        files = [path for part in merged["paths"] for path in Path(part).rglob("*") if path.is_file()]
        on_disk = sum(path.stat().st_size for path in files)
        cost = store.rows(
            "SELECT column, sum(column_bytes_on_disk) AS bytes FROM system.parts_columns "
            f"WHERE {active} GROUP BY column ORDER BY bytes DESC"
        )
        (rolled,) = store.rows(
            "SELECT sum(bytes_on_disk) AS bytes FROM system.parts "
            "WHERE active AND database = currentDatabase() AND table IN ('probe_day', 'probe_unit')"
        )
    if merged["rows"] != rows:
        raise SystemExit(f"bench: {rows} probes were made, the store holds {merged['rows']}")
    ids = sum(column["bytes"] for column in cost if column["column"] in ("client_cid", "server_cid"))
    print(
        f"size: {on_disk / rows:.1f} bytes a row (limit {LIMIT_BYTES:.0f}), all columns of quic_probe, after "
        f"OPTIMIZE FINAL: {merged['parts']} parts,\n  {on_disk} bytes in their files (the engine says "
        f"{merged['bytes']}), index {merged['keys']} and marks {merged['marks']} bytes included;\n"
        f"  connection IDs of 8 and 20 random bytes take {ids / rows:.1f} of it; as loaded "
        f"({loaded['parts']} parts) {loaded['bytes'] / rows:.1f}; roll-ups {rolled['bytes'] / rows:.2f}",
        flush=True,
    )
    for column in cost if columns else ():
        print(f"  {column['column']:22}{column['bytes'] / rows:9.3f}")
    values.add(LOADED, loaded["bytes"] / rows, "bytes")
    values.add("a row in roll-ups, in addition", rolled["bytes"] / rows, "bytes")
    return int(not values.add(MERGED, on_disk / rows, "bytes", most=LIMIT_BYTES))


def _tell_queries(probes: int, found: Times) -> int:
    """Print a line per query; return the number of named queries that are too slow or failed."""
    print(
        f"queries over {probes} probes, seconds (warm: median; cold: files not in memory, "
        f"engine just opened):\n  {process.load()}\n  {'':22}{'cold':>7}{'warm':>7}{'CPU':>7}{'rows':>8}"
    )
    missed = 0
    for name, times in found.items():
        if times["refused"]:
            missed += 1
            print(f"  {name:22}{times['refused']}")
            continue
        is_slow = times["wall_s"] >= LIMIT_S and times["cpu_s"] >= LIMIT_S
        missed += is_slow and not name.startswith("view ")
        cold = f"{'-':>7}" if times["cold_s"] is None else f"{times['cold_s']:7.2f}"
        print(
            f"  {name:22}{cold}{times['wall_s']:7.3f}{times['cpu_s']:7.3f}{times['rows']:8}"
            + (f" at least {LIMIT_S:g} s" if is_slow else ""),
            flush=True,
        )
    return missed


if __name__ == "__main__":
    sys.exit(main())
