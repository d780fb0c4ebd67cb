"""Measure what a campaign over a long list costs, stage by stage: `python -m bench campaign`.

Runs `firstflight campaign run` and `firstflight report` as a user does, with one vantage point and one
repetition, on loopback in a network namespace of its own (bench/campaign_world.py says what they contact).
Stages are processes of the campaign: bench/stage_costs.py attributes to each what its processes used. The
stage `campaign` is the process that starts the others. The responders, which stand for the Internet, are not
counted; over loopback the kernel charges a packet's way to its receiver, and its copy for the capture, to the
sender.

Two campaigns are measured, one with a tenth of the names, and a straight line through both gives the costs of
a million names, so that what does not depend on their number (start of programs) is counted once. The routing
table is as large in both; its cost is not scaled. Memory is judged as measured. With a short list the line
multiplies small differences: at 20,000 names one of 0.1 CPU s by 54.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench import campaign_world, process, stage_costs
from bench.campaign_world import VANTAGE, World
from bench.cost_table import MILLION, Row, row_of, scaled, table, verdict
from firstflight.layout import RunLayout, StageKey
from firstflight.run.run import Run
from orchestration import stages

_FIRSTFLIGHT = [sys.executable, "-P", "-m", "cli"]
CAMPAIGN, REPORT = "campaign", "report"
ORDER = ("targets", "as_data", "resolve", "probe", "dissect", "load", CAMPAIGN, REPORT)


def main() -> int:
    """Measure and print; return 1 if a limit or a goal is exceeded."""
    parser = argparse.ArgumentParser(prog="bench campaign")
    parser.add_argument("--names", type=int, default=100_000, help="length of the list")
    parser.add_argument("--rate", type=float, default=500, help="new probes per second")
    parser.add_argument("--resolve-rate", type=float, default=5000, help="queries per second")
    parser.add_argument("--rib", type=Path, help="MRT table instead of a made-up one of 100,000 prefixes")
    parser.add_argument("--folder", type=Path, help="working folder: 7 kB per name (default: TMPDIR)")
    options = parser.parse_args()
    if options.names < 100:
        parser.error("--names must be at least 100")
    campaign_world.enter_namespace("bench.campaign", sys.argv[1:])
    sizes = (options.names // 10, options.names)
    measured = []
    with (
        tempfile.TemporaryDirectory(prefix="firstflight-bench-", dir=options.folder) as name,
        campaign_world.responders(),
    ):
        for size in sizes:
            world = World(Path(name) / str(size), size, options.rate, options.resolve_rate, options.rib)
            measured.append(_measured(world))
    print(f"as measured with {sizes[1]:,} names:")
    print("\n".join(table(measured[1])))
    many = scaled(measured[0], measured[1], sizes, MILLION)
    print(f"scaled to {MILLION:,} names by a straight line through {sizes[0]:,} and {sizes[1]:,}:")
    print("\n".join(table(many)))
    found = verdict(many, measured[1])
    print(found)
    return int(not found.kept)


def _measured(world: World) -> list[Row]:
    """Run one campaign and its report; print what they did, and return their costs by stage."""
    settings = world.write()
    log = world.folder / "bench.log"
    argv = [*_FIRSTFLIGHT, "campaign", "run", "--config", str(settings)]
    costs = stage_costs.run(argv, stage_of, CAMPAIGN, env=world.environment, log=log)
    run = _the_run(world)
    _print_counts(world, run)
    argv = [*_FIRSTFLIGHT, "report", "--out", str(world.page)]
    costs |= stage_costs.run(argv, lambda _: None, REPORT, env=world.environment, log=log)
    disk = {stage: stage_costs.bytes_below(paths) for stage, paths in _places(world, run).items()}
    disk[CAMPAIGN] = stage_costs.bytes_below([run.path]) - sum(
        stage_costs.bytes_below(p for p in paths if p.is_relative_to(run.path))
        for paths in _places(world, run).values()
    )
    captures = stage_costs.bytes_below([run.layout.stage("capture", run.key(VANTAGE, 1))])
    return [row_of(stage, costs[stage], disk[stage], captures if stage == "probe" else 0) for stage in ORDER]


def stage_of(words: Sequence[str]) -> str | None:
    """Return the stage that `firstflight stage NAME... --run RUN` works on now; None for other processes.

    Of several names it is the last one that has begun.
    """
    if "stage" not in words or "--run" not in words:
        return None
    options = list(words)
    begin, end = options.index("stage") + 1, options.index("--run")
    names = options[begin:end]
    layout = RunLayout(Path(options[end + 1]))
    begun = [name for name in names if layout.report(name, _key_of(options, layout)).exists()]
    return begun[-1] if begun else names[0]


def _key_of(options: list[str], layout: RunLayout) -> StageKey | None:
    if "--vantage" not in options:
        return None
    vantage, repetition = (options[options.index(name) + 1] for name in ("--vantage", "--repetition"))
    return StageKey(layout.root.name, vantage, int(repetition))


def _the_run(world: World) -> Run:
    (path,) = (world.folder / "runs").iterdir()
    return Run.open(str(path))


def _print_counts(world: World, run: Run) -> None:
    """Print what the campaign found. SystemExit if an address was not probed or did not answer."""
    report = run.report("probe", run.key(VANTAGE, 1))
    assert report is not None and report.rows_in is not None
    table = run.report("as_data")
    assert table is not None
    print(
        f"campaign with {world.names:,} names: {report.rows_in:,} targets, "
        f"{report.counts.get('iack', 0):,} of them answered; at most {world.rate:g} new probes and "
        f"{world.resolve_rate:g} queries per second;\n  routing table "
        f"{'as given' if world.rib else 'made up'} with {table.rows_in:,} records; {process.load()}",
        flush=True,
    )
    for warning in report.warnings:
        print(f"  {warning}", flush=True)
    if report.rows_out != report.rows_in or report.counts.get("iack") != report.rows_in:
        raise SystemExit(f"bench: not every probe was answered: {report.counts}")


def _places(world: World, run: Run) -> dict[str, list[Path]]:
    """Return the folders with what each stage left."""
    key = run.key(VANTAGE, 1)
    found = {}
    for stage in stages.STAGES:
        if stage.name in ORDER:
            of = None if stage.scope is not stages.Scope.KEY else key
            found[stage.name] = [run.layout.stage(folder, of) for folder in stage.folders]
    found["as_data"].append(world.cache)
    found["load"].append(world.store)
    return found | {REPORT: [world.page]}


if __name__ == "__main__":
    sys.exit(main())
