"""Extrapolate the costs of measuring a million names to more names: `python -m bench scale`.

This measures nothing. It reads the kept results of `python -m bench campaign` (of a million names, at 20,000
new probes and 60,000 queries per second), `bench prober` and `bench database` in docs/results, and calculates
everything else. docs/scale.md contains the table that it prints. Memory is not included: either it does not
grow with the number of names, or docs/scale.md gives it.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.engines.low_rates import LOW_RATES, RATE, us_per_target
from bench.storing.database import LOADED, MERGED

DAY_S = 86_400
DAYS = 5 * 365 + 1
# A server's disk of 8 TB, filled to three quarters, since merges need space.
SHARD_TB = 8 * 0.75
# Assumed, not measured: a batch becomes a part of PART_BYTES; a merge combines PARTS_A_MERGE parts, up to a
# part of a month or of the store's limit for merges (its setting max_bytes_to_merge_at_max_space_in_pool).
PART_BYTES, PARTS_A_MERGE, MONTH_DAYS, MERGED_BYTES = 8e6, 10, 30, 150 * 2**30


@dataclass(frozen=True)
class Costs:
    """Costs for a million names per vantage point and repetition.

    `probe_cpu_s`: of the probe stage without the prober. `prober_us`: the prober's CPU time per target, keyed
    by the measured number of new probes per second. `merged`: the size of merged rows as a share of their
    size as loaded.
    """

    resolve_cpu_s: float
    probe_cpu_s: float
    prober_us: Mapping[float, float]
    dissect_cpu_s: float
    load_cpu_s: float
    centre_cpu_s: float
    targets: float
    rows: float
    row_bytes: float
    file_bytes: float
    capture_bytes: float
    network_bytes: float
    merged: float

    def vantage_cpu_s(self, rate: float) -> float:
        """Return the CPU seconds at a vantage point that starts `rate` new probes per second.

        Uses the prober's cost at the next lower measured rate, or at the lowest one.
        """
        below = [measured for measured in self.prober_us if measured <= rate]
        prober_us = self.prober_us[max(below, default=min(self.prober_us))]
        stages = self.resolve_cpu_s + self.probe_cpu_s + self.dissect_cpu_s + self.load_cpu_s
        return stages + self.targets * prober_us / 1e6


RESULTS = Path(__file__).parents[2] / "docs" / "results"
CAMPAIGN_RATE, TARGETS = 20_000, 920_414
"""New probes per second and targets of the measured campaign (bench/campaigns/campaign_world.py)."""
# Both directions of a probe, as captured with padding, and 300 bytes for a query and its answer.
PROBE_BYTES, QUERY_BYTES = 5_100, 300
MILLIONS = (1, 30, 300)
VANTAGES = (4, 20)


def measured(folder: Path = RESULTS) -> Costs:
    """Return the costs from the kept results.

    Rows: 3 of dns_answer per name; per target, 1 of quic_probe and 1 of quic_connection. Files: the output of
    the stages probe, resolve, dissect and targets.
    """
    stages = {line["stage"]: line for line in _lines(folder, "campaign")}
    prober, store = (
        {line["what"]: line["measured"] for line in _lines(folder, name)} for name in ("prober", "store-load")
    )
    prober_s = stages["probe"]["program_cpu_s"]["prober"]
    captures_mb = stages["probe"]["captures_mb"]
    files_mb = sum(stages[name]["disk_mb"] for name in ("probe", "resolve", "dissect", "targets"))
    rows = 3_000_000 + 2 * TARGETS
    prober_us = {float(rate): prober[us_per_target(rate)] for rate in (*LOW_RATES, RATE)}
    return Costs(
        resolve_cpu_s=stages["resolve"]["cpu_s"],
        probe_cpu_s=stages["probe"]["cpu_s"] - prober_s,
        prober_us={**prober_us, CAMPAIGN_RATE: prober_s * 1e6 / TARGETS},
        dissect_cpu_s=stages["dissect"]["cpu_s"],
        load_cpu_s=stages["load"]["cpu_s"],
        centre_cpu_s=sum(stages[name]["cpu_s"] for name in ("targets", "as_data", "campaign", "report")),
        targets=TARGETS,
        rows=rows,
        row_bytes=stages["load"]["disk_mb"] * 1e6 / rows,
        file_bytes=(files_mb - captures_mb) * 1e6,
        capture_bytes=captures_mb * 1e6,
        network_bytes=TARGETS * PROBE_BYTES + 3 * 1_000_000 * QUERY_BYTES,
        merged=store[MERGED] / store[LOADED],
    )


def _lines(folder: Path, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))["lines"]
    return found


@dataclass(frozen=True)
class Scale:
    """A daily measurement: millions of names, vantage points, new probes per second at each."""

    millions: float
    vantages: int
    rate: float = 500


def lines(costs: Costs, scale: Scale) -> Iterator[tuple[str, str]]:
    """Yield a scale's costs as pairs of a label and a value."""
    n, v = scale.millions, scale.vantages
    targets, rows = n * costs.targets, n * v * costs.rows
    cpu_s = n * costs.vantage_cpu_s(scale.rate)
    yield "targets per vantage point and day", _with_separators(targets)
    yield f"sending at {scale.rate:,.0f} probes per second", f"{targets / scale.rate / 3600:,.1f} h"
    yield "rate for sending within 12 h", f"{targets / (DAY_S / 2):,.0f} per second"
    yield f"CPU at a vantage point per day, at {scale.rate:,.0f} probes per second", _time(cpu_s)
    yield "cores needed there to finish within a day", f"{cpu_s / DAY_S:.2f}"
    yield "CPU at the centre per day", _time(n * costs.centre_cpu_s)
    yield "network for a vantage point per day", _bytes(n * costs.network_bytes)
    yield "record files from a vantage point per day", _bytes(n * costs.file_bytes)
    yield "captures from a vantage point per day", _bytes(n * costs.capture_bytes)
    yield "rows per day, all vantage points", _with_separators(rows)
    daily = rows * costs.row_bytes
    yield "store per day", _bytes(daily)
    times = max(1.0, math.log(min(MONTH_DAYS * daily, MERGED_BYTES) / PART_BYTES, PARTS_A_MERGE))
    yield f"written by merges per day, {PARTS_A_MERGE} parts each", _bytes(daily * costs.merged * times)
    total = daily * DAYS
    yield "rows in five years", _with_separators(rows * DAYS)
    yield "store in five years", _bytes(total)
    yield "the same after merges", _bytes(total * costs.merged)
    yield f"shards of {SHARD_TB:.0f} TB needed", f"{max(1, -(-total // (SHARD_TB * 1e12))):,.0f}"


def _time(seconds: float) -> str:
    return f"{seconds / 60:,.1f} min" if seconds < 3600 else f"{seconds / 3600:,.1f} h"


def _with_separators(count: float) -> str:
    for size, name in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if count >= size:
            return f"{count / size:,.2f} {name}"
    return f"{count:,.0f}"


def _bytes(count: float) -> str:
    for size, name in ((1e15, "PB"), (1e12, "TB"), (1e9, "GB")):
        if count >= size:
            return f"{count / size:,.1f} {name}"
    return f"{count / 1e6:,.0f} MB"


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="bench scale")
    parser.add_argument("--rate", type=float, default=500, help="new probes per second of a vantage point")
    options = parser.parse_args()
    print("\n".join(table(options.rate)))
    return 0


def table(rate: float = 500) -> Iterator[str]:
    """Yield the lines of the table; `rate`: new probes per second of a vantage point."""
    scales = [Scale(n, v, rate) for n in MILLIONS for v in VANTAGES]
    heads = [f"{scale.millions:g} million, {scale.vantages} points" for scale in scales]
    costs = measured()
    columns = [dict(lines(costs, scale)) for scale in scales]
    yield _row(["every day", *heads])
    yield _row(["---"] * (1 + len(heads)))
    for what in columns[0]:
        yield _row([what, *(column[what] for column in columns)])


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
