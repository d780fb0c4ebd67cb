"""Extrapolate the costs of measuring a million names to more names: `python -m bench scale`.

This measures nothing. The table at the top holds the results of `python -m bench campaign` and `python -m
bench database` (docs/measured.md). Everything else is calculated from them, so docs/scale.md can be
regenerated when the costs change. Memory is not included: either it does not grow with the number of names,
or docs/scale.md gives it.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

DAY_S = 86_400
DAYS = 5 * 365 + 1
# A server's disk of 8 TB, filled to three quarters, since merges need space.
SHARD_TB = 8 * 0.75
# Size of merged rows as a share of their size as loaded (docs/measured.md, bytes per row).
MERGED = 45.1 / 49.4
# Assumed, not measured: a batch becomes a part of PART_BYTES; a merge combines PARTS_A_MERGE parts, up to a
# part of a month or of the store's limit for merges (its setting max_bytes_to_merge_at_max_space_in_pool).
PART_BYTES, PARTS_A_MERGE, MONTH_DAYS, MERGED_BYTES = 8e6, 10, 30, 150 * 2**30


@dataclass(frozen=True)
class Costs:
    """Costs for a million names per vantage point and repetition.

    `probe_cpu_s`: of the probe stage without the prober. `prober_us`: the prober's CPU time per target, keyed
    by the measured number of new probes per second.
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

    def vantage_cpu_s(self, rate: float) -> float:
        """Return the CPU seconds at a vantage point that starts `rate` new probes per second.

        Uses the prober's cost at the next lower measured rate, or at the lowest one.
        """
        below = [measured for measured in self.prober_us if measured <= rate]
        prober_us = self.prober_us[max(below, default=min(self.prober_us))]
        stages = self.resolve_cpu_s + self.probe_cpu_s + self.dissect_cpu_s + self.load_cpu_s
        return stages + self.targets * prober_us / 1e6


# docs/measured/campaign.md, the row of 179.5 CPU s: a million names, unscaled, at 20,000 new probes and
# 60,000 questions per second; the prober at lower rates on the same kind of machine (low rates). Rows: 3 of
# dns_answer per name; per target, 1 of quic_probe and 1 of quic_connection. Files: the output of the stages
# probe, resolve, dissect and targets.
MEASURED = Costs(
    resolve_cpu_s=31.4,
    probe_cpu_s=40.7 - 20.8,
    prober_us={50: 49.6, 200: 35.3, 500: 23.0, 1_000: 22.2, 2_000: 24.7, 20_000: 20.8e6 / 920_414},
    dissect_cpu_s=13.7,
    load_cpu_s=75.2,
    centre_cpu_s=4.4 + 1.1 + 1.4 + 11.8,
    targets=920_000,
    rows=3_000_000 + 2 * 920_000,
    row_bytes=357e6 / 4_840_000,
    file_bytes=(890 - 790 + 47 + 63 + 13) * 1e6,
    capture_bytes=790e6,
    # Both directions of a probe, as captured, and 300 bytes for each of three questions and its answer.
    network_bytes=920_000 * 5_100 + 3 * 1_000_000 * 300,
)
# CPU seconds of named queries over QUERY_ROWS probes, and their ratio to a tenth of these probes
# (docs/measured.md, both on the same busy machine within half an hour).
QUERY_ROWS = 99_993_600
QUERIES = {
    "ack_to_sh_quantiles": (6.57, 8.1),
    "amplification": (6.34, 8.9),
    "changed_behaviour": (8.35, 4.9),
    "sh_to_handshake": (12.30, 12.9),
    "iack_share (of roll-ups)": (0.59, 4.7),
}
MILLIONS = (1, 30, 300)
VANTAGES = (4, 20)


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
    yield "cores there, if all is to end within a day", f"{cpu_s / DAY_S:.2f}"
    yield "CPU at the centre per day", _time(n * costs.centre_cpu_s)
    yield "network of a vantage point per day", _bytes(n * costs.network_bytes)
    yield "record files of a vantage point per day", _bytes(n * costs.file_bytes)
    yield "captures of a vantage point per day", _bytes(n * costs.capture_bytes)
    yield "rows per day, all vantage points", _with_separators(rows)
    daily = rows * costs.row_bytes
    yield "store per day", _bytes(daily)
    times = max(1.0, math.log(min(MONTH_DAYS * daily, MERGED_BYTES) / PART_BYTES, PARTS_A_MERGE))
    yield f"written by merges per day, {PARTS_A_MERGE} parts each", _bytes(daily * MERGED * times)
    total = daily * DAYS
    yield "rows in five years", _with_separators(rows * DAYS)
    yield "store in five years", _bytes(total)
    yield "the same after merges", _bytes(total * MERGED)
    yield f"shards of {SHARD_TB:.0f} TB for that", f"{max(1, -(-total // (SHARD_TB * 1e12))):,.0f}"


def grown(measured_s: float, growth: float, rows: float, measured_rows: float) -> float:
    """Return a query's CPU seconds over `rows`; `growth`: measured factor for ten times the rows.

    Fits a power of the number of rows to two measured points. Values beyond these points are extrapolated.
    """
    return float(measured_s * (rows / measured_rows) ** math.log10(growth))


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
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="bench scale")
    parser.add_argument("--rate", type=float, default=500, help="new probes per second of a vantage point")
    options = parser.parse_args()
    scales = [Scale(n, v, options.rate) for n in MILLIONS for v in VANTAGES]
    heads = [f"{scale.millions:g} million, {scale.vantages} points" for scale in scales]
    columns = [dict(lines(MEASURED, scale)) for scale in scales]
    print(_row(["every day", *heads]))
    print(_row(["---"] * (1 + len(heads))))
    for what in columns[0]:
        print(_row([what, *(column[what] for column in columns)]))
    print()
    probes = [QUERY_ROWS, 10**9, 10**10]
    print(_row(["query, CPU s over this many probes", *map(_with_separators, probes)]))
    print(_row(["---"] * (1 + len(probes))))
    for name, (measured_s, growth) in QUERIES.items():
        times = (grown(measured_s, growth, count, QUERY_ROWS) for count in probes)
        print(_row([name, *(f"{seconds:,.1f}" for seconds in times)]))
    return 0


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
