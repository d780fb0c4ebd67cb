"""Measure the dashboard on a year of daily runs: `python -m bench dashboard`.

Makes daily runs (store_rows.py: four vantage points, the lab's answers), loads them with
`firstflight load`, and serves the store. For each page, measures: CPU seconds of all processes of the
dashboard for an uncached answer, its wall time (each the maximum of two or three), the time of a cached
answer, the first paint in Chromium, and the bytes sent over the network. Then `--clients` clients reload the
overview, and the server's memory before and after is compared. `--store chdb:PATH` measures an existing
store. Goals on idle cores, for each page: an uncached answer in less than 1 s (of CPU time, which other work
changes less), first paint in less than 1.5 s, at most 300 kB. `--result FILE` also writes the values of
the pages to FILE.
"""

from __future__ import annotations

import argparse
import csv
import http.client
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from bench import process, results

RESULT = "bench-dashboard"
LIMIT_S, LIMIT_PAINT_S, LIMIT_BYTES = 1.0, 1.5, 300_000
_FIRSTFLIGHT = [sys.executable, "-m", "cli"]
_RELOADS = 5
_PAINT = "performance.getEntriesByName('first-contentful-paint')[0]"


def main() -> int:
    """Measure and print; return the number of goals missed."""
    parser = argparse.ArgumentParser(prog="bench dashboard")
    parser.add_argument("--rows", type=int, default=10_000_000, help="probes, all runs together")
    parser.add_argument("--runs", type=int, default=365, help="daily runs")
    parser.add_argument("--store", help="measure this store (chdb:PATH) instead of a new one")
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--folder", type=Path, help="working folder: 250 bytes per probe (default: TMPDIR)")
    results.add_option(parser)
    options = parser.parse_args()
    file = results.begin(parser, options.result, RESULT)
    with tempfile.TemporaryDirectory(prefix="firstflight-bench-", dir=options.folder) as name:
        url = options.store or _make_and_load(Path(name), options.rows, options.runs)
        with _serving(url) as (pid, address):
            missed, lines = _pages(pid, address)
            missed += _clients(pid, address, options.clients)
    file.write(lines, results.packages("chdb", "starlette"))
    return missed


def _make_and_load(folder: Path, rows: int, runs: int) -> str:
    """Make and load the runs; return the store's URL."""
    runs_file = folder / "runs.txt"
    argv = [sys.executable, "-m", "bench.storing.store_rows", str(folder / "runs"), "--rows", str(rows)]
    process.run([*argv, "--runs", str(runs), "--days-apart", "1", "--repetitions", "1"], out=runs_file)
    url = f"chdb:{folder / 'store'}"
    env = os.environ | {"FIRSTFLIGHT_STORE": url, "FIRSTFLIGHT_RUNS": str(folder / "runs")}
    ids = [line.split()[0] for line in runs_file.read_text().splitlines()]
    used = process.run([*_FIRSTFLIGHT, "load", *ids], quiet=True, env=env)
    print(f"{rows} probes in {runs} daily runs: loaded in {used.cpu_s:.0f} CPU s, {used.peak_mb:.0f} MB")
    return url


@contextmanager
def _serving(url: str) -> Iterator[tuple[int, str]]:
    """Run the dashboard; yield its process id and its address."""
    environment = os.environ | {"FIRSTFLIGHT_STORE": url}
    with process.listening([*_FIRSTFLIGHT, "dashboard", "--port", "0"], environment) as (pid, address):
        yield pid, address.rstrip("/")


def _pages(pid: int, address: str) -> tuple[int, list[results.Line]]:
    """Print a line per page; return the number of missed goals, and the lines of the result file."""
    from tests import browser  # starts nothing by itself
    from tests.waiting import until

    _get(address, "/")  # starts the processes that query the store
    _get(address, "/queries/known_names")
    print(f"pages ({process.load()}): CPU s and s uncached, ms cached, first paint s, bytes over the network")
    missed = 0
    lines = []
    seen = browser.start()
    try:
        for path, addresses in _page_queries(address).items():
            seen.open(address + path)
            until(lambda: seen.script(f"return {_PAINT} !== undefined"), f"{path} is painted")
            paint_s, sent = seen.script(
                "const paint = performance.getEntriesByName('first-contentful-paint')[0];"
                "return [paint.startTime / 1000,"
                " performance.getEntries().reduce((sum, one) => sum + (one.transferSize || 0), 0)]"
            )
            fresh = [_cost(pid, address, f"{path}?{end}") for end in addresses]
            reload_s = statistics.median(_get(address, path)[0] for _ in range(_RELOADS))
            cpu_s, wall_s = (max(page_times[n] for page_times in fresh) for n in (0, 1))
            over_limit = cpu_s > LIMIT_S or paint_s > LIMIT_PAINT_S or sent > LIMIT_BYTES
            missed += over_limit
            lines.append(result_line(path, cpu_s, wall_s, reload_s, paint_s, sent))
            print(
                f"  {path:24}{cpu_s:7.2f}{wall_s:7.2f}{1000 * reload_s:7.0f}{paint_s:7.2f}{sent:9}"
                + (" over a limit" if over_limit else ""),
                flush=True,
            )
    finally:
        seen.driver.quit()
    return missed, lines


def result_line(
    path: str, cpu_s: float, wall_s: float, reload_s: float, paint_s: float, network_bytes: int
) -> results.Line:
    """Return the line of the result file for a page: times in seconds, `reload_s` of a cached answer."""
    return {
        "page": page_name(path),
        "cpu_s": round(cpu_s, 2),
        "answer_s": round(wall_s, 3),
        "cached_ms": round(1000 * reload_s),
        "first_paint_s": round(paint_s, 3),
        "network_bytes": network_bytes,
    }


def page_name(path: str) -> str:
    """Return a page's name in the table of results, for example `a CDN (Cloudflare)` for /cdn/Cloudflare."""
    kind, _, name = path.strip("/").partition("/")
    names = {
        "": "overview",
        "cdn": f"a CDN ({name})",
        "name": "a name",
        "vantage": "a vantage point",
        "queries": f"a named query (`{name}`)",
        "watch": "watches",
    }
    return names.get(kind, kind)


def _page_queries(address: str) -> dict[str, tuple[str, ...]]:
    """Return the paths of the pages; for each, the query strings that need an uncached answer."""
    _, answer = _get(address, "/queries/amplification_names.csv?limit=1", "identity")
    names = csv.DictReader(answer.decode().splitlines())
    periods = ("step=day", "step=week", "step=month")
    paths = ("/", "/cdn/Cloudflare", "/cdn/Others", f"/name/{next(names)['domain']}", "/vantage/hamburg")
    parameters = dict.fromkeys((*paths, "/downloads", "/handshakes"), periods)
    days = tuple(f"since=2026-01-{day:02}" for day in range(1, 4))
    return parameters | {"/watch": ("step=day", "step=hour"), "/queries/iack_share": days}


def _clients(pid: int, address: str, number: int) -> int:
    """Let clients reload the overview; print the server's memory before, between and after the reloads."""
    resident = [process.resident_mb(pid)]
    for _ in range(2):
        threads = [
            threading.Thread(target=lambda: [_get(address, "/") for _ in range(_RELOADS)])
            for _ in range(number)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        resident.append(process.resident_mb(pid))
    shown = ", ".join(f"{size_mb:.0f}" for size_mb in resident)
    print(
        f"{number} clients, {_RELOADS} reloads each, twice: the server's memory {shown} MB; {process.load()}"
    )
    return int(resident[2] > 1.1 * resident[1])


def _cost(pid: int, address: str, path: str) -> tuple[float, float]:
    """Return the CPU seconds of the dashboard's processes for an answer, and its wall time."""
    before = _family_cpu_s(pid)
    wall_s, _ = _get(address, path)
    return _family_cpu_s(pid) - before, wall_s


def _family_cpu_s(pid: int) -> float:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return sum(process.cpu_s(member) for member in [pid, *map(int, children)])


def _get(address: str, path: str, encoding: str = "gzip") -> tuple[float, bytes]:
    """Return the seconds until the answer is complete, and its body; SystemExit unless its status is 200."""
    parts = urlsplit(address)
    assert parts.hostname and parts.port
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=120)
    began = time.monotonic()
    connection.request("GET", path, headers={"Accept-Encoding": encoding})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    if answer.status != 200:
        raise SystemExit(f"bench: {path} answered {answer.status}")
    return time.monotonic() - began, content


if __name__ == "__main__":
    sys.exit(main())
