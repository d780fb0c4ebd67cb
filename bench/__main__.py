"""Run all measurements, one after the other: `make bench`. Each prints the results and how it took them.

`python -m bench NAME... [OPTION...]` runs only the named measurements and passes the options on to them.
`--result FILE` writes the values of one measurement to a file for docs/results (bench/results.py).
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parent
MEASUREMENTS = {
    "dissector": "the dissector: CPU time compared with tshark, memory on a long capture",
    "prober": "the native prober: targets per CPU second, memory, accuracy of the rate",
    "resolve": "the resolve engine: names per CPU second, compared with zdns and hickory-resolver",
    "handshake_engine": "the handshake engine: handshakes with a response per CPU second, memory",
    "routing_table": "the reader of routing tables: CPU time, compared with the bzip2 command",
    "crawl": "the crawl: names and requests per CPU second, memory at 1,000 and 10,000 names",
    "tcp_options": "the engine of the TCP option survey: connections per CPU second",
    "downloads": "the download clients: megabytes per CPU second, compared with the curl command",
    "campaign": "a campaign over a long list: CPU time, memory and disk of each stage",
    "testbed": "the testbed: CPU time of cells and of a whole figure, compared with real time",
    "real_time": "the testbed: cells in simulated time and in real time over the lab's link",
    "known_stacks": "the handshake engine: names of the testbed's stacks, with drawn settings, as a table",
    "ack_cost": "the testbed: CPU time of acknowledgements in real time, ratio 2 against 10",
    "stack_delays": "the testbed's servers: the time between ACK and ServerHello, in real time",
    "lab": "times over the lab: timestamps of prober, captures and link compared with each other",
    "scale": "costs of many names, vantage points and years, calculated from a million names",
    "database": "the database with 10 million probes: loading, bytes per row, each named query",
    "dashboard": "the dashboard with a year of daily runs: its pages, and 200 clients that reload",
}


def main() -> int:
    """Run the named measurements (default: all); the exit status is the number of failures."""
    given = sys.argv[1:]
    first = next((n for n, word in enumerate(given) if word.startswith("-")), len(given))
    wanted, options = given[:first] or list(MEASUREMENTS), given[first:]
    unknown = [name for name in wanted if name not in MEASUREMENTS]
    if unknown:
        print(f"bench: no measurement {unknown[0]!r}; there are {', '.join(MEASUREMENTS)}", file=sys.stderr)
        return 2
    if len(wanted) > 1 and any(word.partition("=")[0] == "--result" for word in options):
        print("bench: --result is the file of one measurement: name one", file=sys.stderr)
        return 2
    failed = 0
    for name in wanted:
        print(f"== {name}: {MEASUREMENTS[name]}", flush=True)
        folder = next(BENCH.glob(f"*/{name}.py")).parent.name
        argv = [sys.executable, "-m", f"bench.{folder}.{name}", *options]
        failed += subprocess.run(argv, check=False).returncode != 0
        print(flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
