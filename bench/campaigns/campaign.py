"""Measure the cost of each stage in a campaign over a long list: `python -m bench campaign`.

Runs `firstflight campaign run` and `firstflight report` as a user does, with one vantage point and one
repetition, on loopback in a separate network namespace (campaign_world.py describes the peers).
Stages are processes of the campaign: stage_costs.py attributes CPU time and memory of processes to
stages. The stage `campaign` is the process that starts the others. The responders stand for the Internet and
are not counted. Over loopback, the kernel charges the sender for a packet's path to its receiver and for its
copy in the capture.

The bench measures two campaigns, one with a tenth of the names. A straight line through both gives the costs
of a million names, so that fixed costs (start of programs) are counted once. Both campaigns have the same
routing table, so its cost is not scaled. The limit for memory applies to the measured value. With a short
list, the line multiplies small differences: at 20,000 names, it multiplies a difference of 0.1 CPU s by 54.

`--result FILE` writes the measured (not scaled) costs of the larger campaign to FILE.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench import process, results
from bench.campaigns import campaign_world, stage_costs
from bench.campaigns.campaign_world import VANTAGE, BenchWorld
from bench.campaigns.cost_table import MILLION, StageRow, row_of, scaled, table, verdict
from bench.campaigns.stage_costs import Costs
from firstflight.layout import RunLayout, StageKey
from firstflight.run.run import Run
from orchestration import stages

_FIRSTFLIGHT = [sys.executable, "-P", "-m", "cli"]
RESULT = "campaign"
CAMPAIGN, REPORT = "campaign", "report"
ORDER = ("targets", "as_data", "resolve", "probe", "dissect", "load", CAMPAIGN, REPORT)


def main() -> int:
    """Measure and print; return 1 if a limit or a goal is exceeded."""
    parser = argparse.ArgumentParser(prog="bench campaign")
    parser.add_argument("--names", type=int, default=100_000, help="length of the list")
    parser.add_argument("--rate", type=float, default=500, help="new probes per second")
    parser.add_argument("--resolve-rate", type=float, default=5000, help="queries per second")
    parser.add_argument("--rib", type=Path, help="MRT table instead of a made-up one of 100,000 prefixes")
    parser.add_argument("--folder", type=Path, help="working folder; needs 7 kB per name (default: TMPDIR)")
    results.add_option(parser)
    options = parser.parse_args()
    if options.names < 100:
        parser.error("--names must be at least 100")
    file = results.begin(parser, options.result, RESULT)
    campaign_world.enter_namespace("bench.campaigns.campaign", sys.argv[1:])
    sizes = (options.names // 10, options.names)
    measured = []
    with (
        tempfile.TemporaryDirectory(prefix="firstflight-bench-", dir=options.folder) as name,
        campaign_world.responders(),
    ):
        for size in sizes:
            world = BenchWorld(Path(name) / str(size), size, options.rate, options.resolve_rate, options.rib)
            measured.append(_measured(world))
    print(f"as measured with {sizes[1]:,} names:")
    print("\n".join(table(measured[1])))
    many = scaled(measured[0], measured[1], sizes, MILLION)
    print(f"scaled to {MILLION:,} names by a straight line through {sizes[0]:,} and {sizes[1]:,}:")
    print("\n".join(table(many)))
    campaign_verdict = verdict(many, measured[1])
    print(campaign_verdict)
    file.write(result_lines(sizes[1], measured[0], measured[1]), results.packages("chdb", "pyarrow"))
    return int(not campaign_verdict.within_limits)


def result_lines(names: int, few: Sequence[StageRow], many: Sequence[StageRow]) -> list[results.Line]:
    """Return the lines of the result file: a line per stage, and the sum.

    `many`: the costs of the campaign with `names` names; `few`: of the one with a tenth, for its memory.
    """
    few_mb = {row.stage: row.peak_mb for row in few}
    lines: list[results.Line] = [
        {
            "stage": row.stage,
            "cpu_s": round(row.all_cpu_s, 2),
            "program_cpu_s": {name: round(used, 2) for name, used in row.cpu_s.items()},
            "programs": ", ".join(f"{name} {used:.1f}" for name, used in row.cpu_s.items() if used >= 0.05),
            "peak_mb": round(row.peak_mb),
            "peak_mb_few": round(few_mb[row.stage]),
            "disk_mb": round(row.disk_mb),
            "captures_mb": round(row.capture_mb) or None,
        }
        for row in many
    ]
    total: results.Line = {
        "stage": f"sum, {names:,} names",
        "cpu_s": round(sum(row.all_cpu_s for row in many), 2),
        "program_cpu_s": None,
        "programs": None,
        "peak_mb": max(line["peak_mb"] for line in lines),
        "peak_mb_few": max(line["peak_mb_few"] for line in lines),
        "disk_mb": sum(line["disk_mb"] for line in lines),
        "captures_mb": sum(line["captures_mb"] or 0 for line in lines),
    }
    return [*lines, total]


def _run_campaign(world: BenchWorld) -> tuple[Run, Costs]:
    """Run one campaign and print its counts; return the run and its costs by stage."""
    settings = world.write()
    log = world.folder / "bench.log"
    argv = [*_FIRSTFLIGHT, "campaign", "run", "--config", str(settings)]
    costs = stage_costs.run(argv, stage_of, CAMPAIGN, env=world.environment, log=log)
    run = _the_run(world)
    _print_counts(world, run)
    return run, costs


def _measured(world: BenchWorld) -> list[StageRow]:
    """Run one campaign and its report; return their costs by stage."""
    run, costs = _run_campaign(world)
    argv = [*_FIRSTFLIGHT, "report", "--out", str(world.page)]
    log = world.folder / "bench.log"
    costs |= stage_costs.run(argv, lambda _: None, REPORT, env=world.environment, log=log)
    disk = {stage: stage_costs.bytes_below(paths) for stage, paths in _output_folders(world, run).items()}
    disk[CAMPAIGN] = stage_costs.bytes_below([run.path]) - sum(
        stage_costs.bytes_below(p for p in paths if p.is_relative_to(run.path))
        for paths in _output_folders(world, run).values()
    )
    captures = stage_costs.bytes_below([run.layout.stage("capture", run.key(VANTAGE, 1))])
    return [row_of(stage, costs[stage], disk[stage], captures if stage == "probe" else 0) for stage in ORDER]


def stage_of(words: Sequence[str]) -> str | None:
    """Return the current stage of `firstflight stage NAME... --run RUN`; `None` for other processes.

    If the command names several stages, the current one is the last to have started.
    """
    if "stage" not in words or "--run" not in words:
        return None
    options = list(words)
    begin, end = options.index("stage") + 1, options.index("--run")
    names = options[begin:end]
    layout = RunLayout(Path(options[end + 1]))
    started = [name for name in names if layout.report(name, _key_of(options, layout)).exists()]
    return started[-1] if started else names[0]


def _key_of(options: list[str], layout: RunLayout) -> StageKey | None:
    if "--vantage" not in options:
        return None
    vantage, repetition = (options[options.index(name) + 1] for name in ("--vantage", "--repetition"))
    return StageKey(layout.root.name, vantage, int(repetition))


def _the_run(world: BenchWorld) -> Run:
    (path,) = (world.folder / "runs").iterdir()
    return Run.open(str(path))


def _print_counts(world: BenchWorld, run: Run) -> None:
    """Print the campaign's counts. SystemExit if an address was not probed or did not answer."""
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


def _output_folders(world: BenchWorld, run: Run) -> dict[str, list[Path]]:
    """Return the output folders of each stage."""
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
