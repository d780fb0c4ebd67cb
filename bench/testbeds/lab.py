"""Measure the accuracy of a campaign's times over the lab: `python -m bench.testbeds.lab`.

Starts a separate lab with captures at the edges (network namespaces without a route out) and runs a campaign
from its four vantage points. Compares four records of the same packets: the prober's row, the capture at the
prober, the capture at the edge, and the link emulator's log. The bench does not fail on a slow machine:
tests/end_to_end checks the properties that hold on every machine; this measures the accuracy on this one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench import process, results
from lab.system.link_log import LinkLog

RESULT = "lab-times"
ROOT = Path(__file__).parents[2]
FIRSTFLIGHT = str(Path(sys.executable).with_name("firstflight"))
QUANTILES = (0.5, 0.99, 0.999, 1.0)
Key = tuple[str, int, str, str]


@dataclass(frozen=True)
class Place:
    """Folders of the lab, the runs and the store of this measurement."""

    folder: Path

    def firstflight(self, *arguments: str) -> str:
        """Run a command on this lab; return its standard output. SystemExit with its messages if it fails."""
        environment = {
            **os.environ,
            "FIRSTFLIGHT_LAB": str(self.folder / "lab"),
            "FIRSTFLIGHT_RUNS": str(self.folder / "runs"),
            "FIRSTFLIGHT_STORE": f"chdb:{self.folder / 'store'}",
        }
        done = subprocess.run(
            [FIRSTFLIGHT, *arguments], env=environment, cwd=ROOT, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise SystemExit(f"bench: firstflight {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def lines(self, *arguments: str) -> Iterator[dict[str, Any]]:
        """Run a command on this lab; return its standard output as JSON lines."""
        return map(json.loads, self.firstflight(*arguments).splitlines())

    def config(self) -> Path:
        """Write the campaign configuration for this lab."""
        path = self.folder / "campaign.toml"
        text = (ROOT / "lab" / "campaign.toml").read_text(encoding="utf-8")
        path.write_text(text.replace("../var/lab", str(self.folder / "lab")), encoding="utf-8")
        return path


def connections(place: Place, captures: Iterable[Path]) -> dict[Key, dict[str, Any]]:
    """Dissect captures; return rows by client address and port, server address, connection ID."""
    words = ["dissect", *map(str, captures), "--kind", "quic_connection", "--format", "jsonl"]
    return {
        (r["client_ip"], r["client_port"], r["server_ip"], r["client_scid"]): r for r in place.lines(*words)
    }


def show(what: str, microseconds: Iterable[float]) -> results.Line:
    """Print one line: the count and quantiles in us; return it as a line of the result file."""
    values = np.fromiter(microseconds, float)
    quantiles = np.quantile(values, QUANTILES)
    shown = ", ".join(
        f"{'max' if q == 1 else f'p{q * 100:g}'} {value:,.1f}"
        for q, value in zip(QUANTILES, quantiles, strict=True)
    )
    print(f"  {what} ({values.size:,}): {shown} us")
    named = zip(("p50_us", "p99_us", "p999_us", "max_us"), quantiles, strict=True)
    return {"what": what, "count": int(values.size)} | {name: round(float(us), 1) for name, us in named}


def compare(place: Place, run: str) -> Iterator[results.Line]:
    """Print the differences between a campaign's records, and yield the lines of the result file."""
    rows = place.lines("sql", f"SELECT * FROM quic_probe WHERE run = '{run}'", "--format", "JSONEachRow")
    sent = {(r["src_ip"], r["src_port"], r["ip"], r["client_cid"]): r for r in rows if r["client_cid"]}
    connections_here = connections(place, (place.folder / "runs" / run).glob("*/*/capture/*.pcap"))
    edge = connections(place, (place.folder / "lab" / "captures").glob("*.pcap"))
    truth = {
        (t["vantage"], t["domain"], t["ip"]): t for t in place.lines("lab", "truth", "--format", "jsonl")
    }
    log = LinkLog(place.folder / "lab" / "lateness.csv")
    answered = {
        key: row for key, row in sent.items() if row["ack_us"] is not None and key in connections_here
    }
    instant = {key: row for key, row in answered.items() if row["outcome"] == "iack" and row["attempts"] == 1}

    yield show("link: packets released late", (late / 1000 for late in log.lateness_ns()))
    parted = [abs(row["ack_us"] - connections_here[key]["ack_us"]) for key, row in answered.items()]
    yield show("send timestamp: prober and its capture", parted)
    print(f"    further apart than 20 us: {sum(us > 20 for us in parted)}")
    gaps = ((row["ack_to_sh_us"], connections_here[key]["ack_to_sh_us"]) for key, row in answered.items())
    yield show("`ack_to_sh_us`: prober and its capture", (abs(a - b) for a, b in gaps if None not in (a, b)))
    yield show(
        "`ack_to_sh_us`: vantage point and the edge's capture",
        (abs(row["ack_to_sh_us"] - edge[key]["ack_to_sh_us"]) for key, row in instant.items()),
    )
    declared = (
        (row["ack_to_sh_us"], truth[row["vantage"], row["domain"], row["ip"]]["ack_to_sh_us"])
        for row in instant.values()
    )
    yield show("`ack_to_sh_us`: measured and declared", (abs(a - b) for a, b in declared if b is not None))


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="bench.testbeds.lab")
    parser.add_argument("--repetitions", type=int, default=1, help="of the lab's campaign (1)")
    results.add_option(parser)
    options = parser.parse_args()
    file = results.begin(parser, options.result, RESULT)
    with tempfile.TemporaryDirectory(prefix="firstflight-bench-") as folder:
        place = Place(Path(folder))
        began = time.monotonic()
        place.firstflight("lab", "up", "--capture-edges")
        up_s = time.monotonic() - began
        try:
            # Without handshakes: only times of probes are compared, and handshakes would compete with them.
            words = ("campaign", "run", "--config", str(place.config()), "--set", "handshake.enabled=false")
            run = place.firstflight(*words, "--repetitions", str(options.repetitions)).splitlines()[-1]
            print(f"  {process.load()}; lab up in {up_s:.1f} s (wall)")
            lines = list(compare(place, run))
        finally:
            began = time.monotonic()
            place.firstflight("lab", "down")
        print(f"  lab down in {time.monotonic() - began:.1f} s (wall)")
    file.write(lines, results.packages())
    return 0


if __name__ == "__main__":
    sys.exit(main())
