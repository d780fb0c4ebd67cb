"""`firstflight testbed`: experiments with real QUIC stacks in simulated time."""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli.shared import options
from firstflight.errors import FirstflightError, UsageError
from firstflight.system import stdout, terminal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from testbed.experiment.experiment import Experiment
    from testbed.stacks import StackFile
    from testbed.trials.block import TrialBlock
    from testbed.trials.trial_row import TrialRow


# Permitted names of a scenario file without suffix: `...toml` would be the parent folder.
_FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_OUT = click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("var/testbed"),
    show_default=True,
    metavar="DIR",
    help="Folder of the results.",
)
_CELLS = click.option(
    "--cells",
    multiple=True,
    metavar="TEXT",
    help="Only cells with this text in their names (repeatable, or separated by commas).",
)


@click.group(
    no_args_is_help=True, epilog="Example: firstflight testbed run iack-ttfb --cells aioquic --seeds 5"
)
def command() -> None:
    """Repeat experiments of the papers with real stacks in simulated time (docs/testbed.md)."""


@command.command("list", epilog="Example: firstflight testbed list iack-ttfb")
@click.argument("name", metavar="[EXPERIMENT]", required=False)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["table", "jsonl"]),
    default="table",
    help="Format of the output.",
)
def listed(name: str | None, output_format: str) -> None:
    """List experiments, and stacks with missing parts; with EXPERIMENT, list the cells."""
    from testbed import experiment_files, stacks
    from testbed.computed import COMPUTED, DERIVED

    if name in COMPUTED:
        raise UsageError(f"{name} has no cells, because it is computed: `firstflight testbed show {name}`")
    if name in DERIVED:
        raise UsageError(f"{name} has no cells: {_made_of(name)}")
    chosen = {name: experiment_files.find(name)} if name else experiment_files.load()
    lines = []
    for key, experiment in chosen.items():
        if output_format == "jsonl":
            cells = experiment.cells()
            lines += [
                terminal.as_json({"experiment": key, "cell": cell.name, **cell.model_dump()})
                for cell in cells
            ]
        elif name:
            lines += [cell.name for cell in experiment.cells()]
        else:
            lines += [
                f"{key}: {experiment.title}",
                f"    {experiment.source}; {len(experiment.cells())} cells of",
            ]
            lines += [
                f"    {field}: {', '.join(map(str, values))}" for field, values in experiment.vary.items()
            ]
    if not name and output_format == "table":
        lines += [
            f"{key}: {figure.title}\n    {figure.source}; computed by `show`"
            for key, figure in COMPUTED.items()
        ]
        lines += [
            f"{key}: {table.title}\n    {table.source}; made by `show` from the trials of "
            f"{', '.join(table.sources)}"
            for key, table in DERIVED.items()
        ]
        stacks_here = stacks.load()
        lines += ["", "Stacks:", *(f"    {key}: {_description(stack)}" for key, stack in stacks_here.items())]
        counts = [sum(map(bool, given)) for given in zip(*map(_sides_of, stacks_here.values()), strict=True)]
        lines += ["    {} stacks: {} clients, {} servers, {} unavailable".format(len(stacks_here), *counts)]
    stdout.write("".join(f"{line}\n" for line in lines).encode())


def _sides_of(stack: StackFile) -> tuple[bool, bool, bool]:
    """Return whether a stack has a client, has a server, is unavailable."""
    return stack.client is not None, stack.server is not None, stack.unavailable is not None


def _description(stack: StackFile) -> str:
    sides = [side for side, given in (("client", stack.client), ("server", stack.server)) if given]
    if not sides:
        return f"unavailable: {stack.unavailable}"
    missing = "".join(f"; {reason}" for reason in stack.missing())
    return f"{' and '.join(sides)}, {stack.version.text()}{missing}"


@command.command(epilog="Example: firstflight testbed run iack-ttfb --seeds 25 --jobs 2")
@click.argument("name", metavar="[EXPERIMENT]", required=False)
@click.option(
    "--scenario",
    type=options.InputPath(),
    metavar="FILE",
    help="File with your own experiment (docs/testbed.md).",
)
@_CELLS
@click.option(
    "--seeds",
    type=click.IntRange(1, 100_000),
    metavar="N",
    help="Trials of each cell (default: from the experiment). Up to 50 trials share a guest and a seed, "
    "fewer with large bodies or a browser.",
)
@click.option(
    "--jobs", type=click.IntRange(1, 256), default=1, show_default=True, help="Number of concurrent guests."
)
@click.option("--resume", is_flag=True, help="Keep existing trials and run the others.")
@click.option("--dry-run", is_flag=True, help="Print the plan and the estimated cost; run nothing.")
@click.option("--drop-captures", is_flag=True, help="Keep rows and logs, but not captures and keys.")
@_OUT
def run(
    name: str | None,
    scenario: Path | None,
    cells: tuple[str, ...],
    seeds: int | None,
    jobs: int,
    resume: bool,
    dry_run: bool,
    drop_captures: bool,
    out: Path,
) -> None:
    """Run the trials of an experiment in guests; after a kill, continue with --resume.

    Estimates assume an idle machine. When the command finishes, all trials are in
    OUT/EXPERIMENT/testbed_trial.parquet, which `firstflight load` accepts. Exit status 1 if a trial failed,
    unless the stack is unavailable on this machine.
    """
    from firstflight.system import interrupt
    from testbed.experiment import experiment
    from testbed.trials import record_file, series

    name, chosen_experiment = _chosen(name, scenario)
    planned = series.plan(
        out,
        name,
        experiment.chosen(chosen_experiment, _patterns(cells)),
        seeds or chosen_experiment.repetitions,
        resume=resume or dry_run,
    )
    terminal.echo(
        f"{name}: {planned.trials} trials in {planned.guests} guests to do, about {planned.cpu_s:.0f} s of "
        f"CPU time, {planned.wall_s(jobs):.0f} s with --jobs {jobs}; {len(planned.present)} blocks are done; "
        f"results in {out / name}",
        err=True,
    )
    for note in planned.older:
        terminal.echo(note, err=True)
    if dry_run:
        return
    counts: Counter[str] = Counter()

    def say(block: TrialBlock, rows: Sequence[TrialRow], took_s: float) -> None:
        outcomes = Counter(row["outcome"] for row in rows)
        counts.update(outcomes)
        shown = ", ".join(f"{outcome} {count}" for outcome, count in sorted(outcomes.items()))
        terminal.echo(f"{block.name}: {shown} ({took_s:.1f} s)", err=True)

    with interrupt.exit_on_sigint():
        try:
            series.run(planned, jobs, say, captures=not drop_captures)
        finally:
            # Also write the trials that finished before a fault.
            if counts or not planned.missing:
                record_file.write(out, name)
    failed = sum(counts.values()) - counts["done"] - counts["unavailable"]
    if failed:
        raise FirstflightError(
            f"{failed} of {sum(counts.values())} trials were not done: the rows in {out / name} give the "
            "reasons, and --resume repeats trials with failed guests"
        )


@command.command(epilog="Example: firstflight testbed show iack-ttfb --format jsonl")
@click.argument("name", metavar="[EXPERIMENT]", required=False)
@click.option(
    "--scenario",
    type=options.InputPath(),
    metavar="FILE",
    help="The experiment file that was given to `run`.",
)
@click.option(
    "--part",
    type=click.Choice(["gain", "trials"]),
    default="gain",
    show_default=True,
    help="gain: medians of cells or pairs of cells; trials: one line per trial (jsonl only).",
)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["table", "jsonl", "json"]),
    default="table",
    help="Format of the output. json: the lines of jsonl, with commands, date and versions, to keep.",
)
@click.option(
    "--page",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Instead write an HTML page, which needs no network and no script, and print its path.",
)
@_OUT
def show(
    name: str | None, scenario: Path | None, part: str, output_format: str, page: Path | None, out: Path
) -> None:
    """Print the results of an experiment, the published values, and whether expectations are met.

    Trials recorded under other settings are rejected, except with `--part trials`. iack-pto,
    iack-pto-reduction and ack-overhead are computed and need no trials; iack-better uses the trials of
    several experiments.
    """
    from testbed import measures, result_file
    from testbed.computed import COMPUTED, DERIVED, numeric_page
    from testbed.trials import series, versions

    if page is not None and (part == "trials" or output_format != "table"):
        raise UsageError("--page writes a page, not rows: remove --part and --format")
    if part == "trials" and output_format == "json":
        raise UsageError("--format json has no trials: write --format jsonl, or remove --part")
    if name in COMPUTED and scenario is None:
        stdout.check_open()
        if page is not None:
            from testbed import report

            terminal.echo(str(report.write(report.of_figure(str(name), COMPUTED[name]), page)))
            return
        figure = COMPUTED[name]
        if part == "trials":
            raise UsageError(f"{name} has no trials, because it is computed: remove --part")
        if output_format == "jsonl":
            text = "".join(terminal.as_json(row) + "\n" for row in figure.rows())
        elif output_format == "json":
            text = result_file.text(result_file.computed(str(name), figure.rows()))
        else:
            text = terminal.lines(numeric_page.summary(figure).text(terminal=sys.stdout.isatty()))
        stdout.write(text.encode())
        return
    if name in DERIVED and scenario is None:
        _show_derived(str(name), part, output_format, page, out)
        return
    name, chosen_experiment = _chosen(name, scenario)
    rows = series.rows(out, name)
    stdout.check_open()
    if part == "trials":
        given: Sequence[TrialRow] = rows
    else:
        series.check_conditions(out, name, chosen_experiment.cells())
        found = measures.results(chosen_experiment, out / name, rows)
        if page is not None:
            from testbed import report

            content = report.of_trials(name, chosen_experiment, out / name, rows, found, scenario)
            terminal.echo(str(report.write(content, page)))
            return
        given = [line.as_dict() for line in found.lines]
    if part == "trials" or output_format == "jsonl":
        text = "".join(terminal.as_json(row) + "\n" for row in given)
    elif output_format == "json":
        kept = {name: (chosen_experiment, rows)}
        text = result_file.text(result_file.of_trials(name, kept, out, given, scenario))
    else:
        notes = "".join(f"{note}\n" for note in versions.multiple_versions(versions.of(rows)))
        text = terminal.lines(found.summary().text(terminal=sys.stdout.isatty()) + notes)
    stdout.write(text.encode())


def _show_derived(name: str, part: str, output_format: str, page: Path | None, out: Path) -> None:
    """Print a table that uses the trials of several experiments, or write its page."""
    from testbed import experiment_files, report, result_file
    from testbed.computed import DERIVED
    from testbed.trials import series, versions

    derived = DERIVED[name]
    found = series.rows_of(out, derived.sources)
    stdout.check_open()
    if part != "trials":
        for source in found:
            series.check_conditions(out, source, experiment_files.find(source).cells())
    if page is not None:
        terminal.echo(str(report.write(report.of_derived(name, derived, out, found), page)))
        return
    rows = [row for rows_of_experiment in found.values() for row in rows_of_experiment]
    lines = [] if part == "trials" else derived.lines(out, rows)
    if part == "trials" or output_format == "jsonl":
        given = rows if part == "trials" else [line.as_dict() for line in lines]
        text = "".join(terminal.as_json(row) + "\n" for row in given)
    elif output_format == "json":
        kept = {source: (experiment_files.find(source), of_source) for source, of_source in found.items()}
        given = [line.as_dict() for line in lines]
        text = result_file.text(result_file.of_trials(name, kept, out, given))
    else:
        without = [source for source in derived.sources if source not in found]
        notes = "".join(f"{note}\n" for note in versions.multiple_versions(versions.of(rows)))
        text = terminal.lines(derived.summary(lines, without).text(terminal=sys.stdout.isatty()) + notes)
    stdout.write(text.encode())


@command.command(epilog="Example: firstflight testbed verify --cells quiche-aioquic")
@click.argument("name", metavar="[EXPERIMENT]", required=False)
@_CELLS
@click.option(
    "--seeds",
    type=click.IntRange(1, 100),
    default=2,
    show_default=True,
    metavar="N",
    help="Repetitions of each cell.",
)
@click.option(
    "--jobs", type=click.IntRange(1, 256), default=1, show_default=True, help="Number of concurrent guests."
)
def verify(name: str | None, cells: tuple[str, ...], seeds: int, jobs: int) -> None:
    """Run cells twice, compare captures and results byte by byte, and print one hash per cell.

    Without --cells, runs a sample of each experiment's cells. Failed trials are listed after the hash; two
    runs with the same failures count as equal. Exit status 1 if two runs differ or a guest fails.
    """
    from firstflight.system import interrupt
    from testbed import experiment_files
    from testbed.computed import COMPUTED, DERIVED
    from testbed.experiment import experiment
    from testbed.trials import compare_runs

    if name in COMPUTED:
        raise UsageError(f"{name} has no trials to run twice, because it is computed")
    if name in DERIVED:
        raise UsageError(f"{name} has no trials to run twice: {_made_of(name)}")

    differing = failed = 0
    with interrupt.exit_on_sigint():
        for experiment_name in [name] if name else experiment_files.names():
            chosen = experiment.chosen(experiment_files.find(experiment_name), _patterns(cells))
            sample = chosen if cells else compare_runs.sample(chosen)
            for pair in compare_runs.run_twice(experiment_name, sample, seeds, jobs):
                hashes = sorted({str(digest) for digest in pair.hashes if digest is not None})
                failed += pair.failed
                differing += not (pair.failed or pair.same)
                note = " FAILED" if pair.failed else "" if pair.same else " DIFFER"
                if pair.not_done and not pair.failed:
                    note += f" (not done: {', '.join(pair.not_done)})"
                terminal.echo(f"{experiment_name}/{pair.block.name} {' '.join(hashes)}{note}")
    if failed:
        raise FirstflightError(
            f"the guests of {failed} cells failed: the rows of `firstflight testbed run` give the reasons"
        )
    if differing:
        raise FirstflightError(f"{differing} cells gave different bytes in the second run")


def _chosen(name: str | None, scenario: Path | None) -> tuple[str, Experiment]:
    """Return name and content of the requested experiment; UsageError if it does not exist."""
    from testbed import experiment_files
    from testbed.computed import COMPUTED, DERIVED

    if name in DERIVED and scenario is None:
        raise UsageError(f"{name} has no trials: {_made_of(name)}")
    if name in COMPUTED and scenario is None:
        raise UsageError(f"{name} needs no trials, because it is computed: `firstflight testbed show {name}`")
    if (name is None) == (scenario is None):
        raise UsageError(
            f"name an experiment ({', '.join(experiment_files.names())}), or give --scenario FILE"
        )
    if scenario is not None:
        if not _FOLDER.fullmatch(scenario.stem):
            raise UsageError(
                f"{scenario} has a name that cannot be the folder of its results: rename the file, using "
                "letters, digits, '-', '_' and dots, starting with a letter or digit"
            )
        return scenario.stem, experiment_files.read(scenario)
    return str(name), experiment_files.find(str(name))


def _made_of(name: str) -> str:
    """Return a hint with the experiments that a derived table uses."""
    from testbed.computed import DERIVED

    return f"`firstflight testbed show {name}` uses {', '.join(DERIVED[name].sources)}"


def _patterns(given: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(part for text in given for part in text.split(",") if part)
