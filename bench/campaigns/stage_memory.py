"""Measure the memory of each stage at three lengths of the list: `python -m bench stage_memory`.

Runs `firstflight campaign run` as bench/campaigns/campaign.py does, at 20,000 probes and 60,000 queries per
second, and reads the anonymous memory of all processes every 4 ms. Only Python processes count, so the memory
of the engines, for example the prober, is not in the table.

`--result FILE` writes the table to FILE. If FILE exists, its values at a million names become the
values before.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import process, results
from bench.campaigns import campaign_world
from bench.campaigns.campaign import run_campaign
from bench.campaigns.campaign_world import BenchWorld
from bench.campaigns.stage_costs import PYTHON

RESULT = "stage-memory"
SIZES = (100_000, 400_000, 1_000_000)
RATE, RESOLVE_RATE = 20_000, 60_000
EVERY_S = 0.004
# Stages, with their names in the table. The dissector is not a Python process; the stage compares its rows.
STAGES = {
    "targets": "targets",
    "as_data": "as_data",
    "resolve": "resolve",
    "probe": "probe",
    "dissect": "dissect, comparing",
}
Peaks = Mapping[str, int]
"""Anonymous bytes of the largest Python process, by stage."""


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="bench stage_memory")
    parser.add_argument("--quick", action="store_true", help="a hundredth of the names")
    parser.add_argument("--folder", type=Path, help="working folder; needs 7 kB per name (default: TMPDIR)")
    results.add_option(parser)
    options = parser.parse_args()
    if options.quick and options.result is not None:
        parser.error("--result needs all names: remove --quick")
    file = results.begin(parser, options.result, RESULT)
    campaign_world.enter_namespace("bench.campaigns.stage_memory", sys.argv[1:])
    sizes = [size // (100 if options.quick else 1) for size in SIZES]
    with (
        tempfile.TemporaryDirectory(prefix="firstflight-bench-", dir=options.folder) as name,
        campaign_world.responders(),
    ):
        peaks = [_peaks(BenchWorld(Path(name) / str(size), size, RATE, RESOLVE_RATE)) for size in sizes]
    _print(sizes, peaks)
    earlier = file.earlier["lines"] if file.earlier is not None else ()
    file.write(lines(dict(zip(SIZES, peaks, strict=True)), earlier), results.packages("pyarrow"))
    return 0


def _peaks(world: BenchWorld) -> Peaks:
    _, costs = run_campaign(world, EVERY_S)
    return {stage: costs[stage].peaks.get(PYTHON, 0) for stage in STAGES if stage in costs}


def lines(peaks: Mapping[int, Peaks], earlier: Sequence[Mapping[str, Any]]) -> list[results.Line]:
    """Return the lines of the result file.

    `peaks`: by number of names; `earlier`: the lines of an earlier file. A stage without a process in a
    campaign has null. `bytes_per_name`: the growth from the smallest to the next number of names, at least 0.
    """
    before = {line["stage"]: line["names_1000000_mb"] for line in earlier}
    few, many = sorted(peaks)[:2]
    found = []
    for stage, label in STAGES.items():
        sizes = {names: of_stages.get(stage) for names, of_stages in peaks.items()}
        low, high = sizes[few], sizes[many]
        growth = None if low is None or high is None else max(0, round((high - low) / (many - few)))
        columns = {
            f"names_{names}_mb": None if size is None else round(size / 1e6) for names, size in sizes.items()
        }
        found.append({"stage": label, **columns, "bytes_per_name": growth, "before_mb": before.get(label)})
    return found


def _print(sizes: Sequence[int], peaks: Sequence[Peaks]) -> None:
    print(
        f"MB anonymous of the largest Python process of each stage, every {1000 * EVERY_S:.0f} ms; "
        f"{process.load()}"
    )
    print(f"  {'names':20}" + "".join(f"{size:>12,}" for size in sizes))
    for stage, label in STAGES.items():
        cells = (of_stages.get(stage) for of_stages in peaks)
        print(
            f"  {label:20}" + "".join(f"{'-' if size is None else f'{size / 1e6:.0f}':>12}" for size in cells)
        )


if __name__ == "__main__":
    sys.exit(main())
