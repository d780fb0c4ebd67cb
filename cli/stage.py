"""`firstflight stage NAME`: one stage of a run, alone; the campaign runs each stage through this."""

from __future__ import annotations

import importlib
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import NoReturn

import click

from firstflight.errors import FirstflightError, Interrupted, UsageError
from firstflight.run import clock
from firstflight.run.run import Run
from firstflight.settings.types import DAY_S, Command
from firstflight.system import children, files, terminal
from orchestration import process
from store import confined_command as confined
from store.load import reached

_EPILOG = """Example: firstflight stage probe --run 20261120T063905Z-a1b2c3 --vantage hamburg --repetition 1

Example: firstflight stage watch --run 20261120T063905Z-a1b2c3 --vantage hamburg --repetition 7 --period 3600
--start 2026-11-20T12:00:00Z"""

# stage -> (module with a function `stage`, whether it belongs to a vantage point and repetition)
STAGES: dict[str, tuple[str, bool]] = {
    "targets": ("crawler.lists.stage", False),
    "as_data": ("crawler.routing.stage", False),
    "resolve": ("scanner.resolve.stage", True),
    "probe": ("scanner.first_answer.stage", True),
    "dissect": ("dissector.stage", True),
    "watch": ("scanner.watch.stage", True),
    "load": ("store.load.loader", False),
}

# Stages that send packets to those who are measured, or ask about them: only from where the settings say.
SENDING = {"resolve", "probe", "watch"}
# Stages that fetch, behind the centre's command.
FETCHING = {"targets", "as_data"}


@click.command(epilog=_EPILOG)
@click.argument("names", nargs=-1, required=True, type=click.Choice(sorted(STAGES)), metavar="NAME...")
@click.option("--run", "run_name", required=True, metavar="RUN", help="Run id, or path of a run's folder.")
@click.option(
    "--vantage",
    metavar="V",
    help="Vantage point (resolve, probe, dissect, watch; load: only what it measured).",
)
@click.option("--repetition", type=click.IntRange(min=1), metavar="N", help="Repetition, from 1.")
@click.option("--period", type=click.FloatRange(min=1, max=DAY_S), metavar="SECONDS", help="watch: how long.")
@click.option(
    "--start",
    metavar="TIME",
    help="watch: its first moment (UTC), for example 2026-11-20T12:00:00Z [the next whole minute].",
)
@click.option(
    "--centre-clock",
    type=click.IntRange(min=1),
    metavar="NS",
    help="The time at the centre (ns since 1970) when it started this; the clock here is compared with it.",
)
@click.option(
    "--here",
    is_flag=True,
    help="This is the vantage point, or the centre: do not go through its command (the campaign says so).",
)
@click.option("--again", is_flag=True, help="Do it again although it is done; its output is replaced.")
def command(
    names: tuple[str, ...],
    run_name: str,
    vantage: str | None,
    repetition: int | None,
    period: float | None,
    start: str | None,
    centre_clock: int | None,
    here: bool,
    again: bool,
) -> None:
    """Run stages of a run, one after the other (targets, as_data, resolve, probe, dissect, watch, load).

    A stage that sends or fetches runs behind the command of its vantage point, or of the centre, if the
    settings name one: what is measured is measured from there. A stage that is done is left alone; one that
    was cut goes on where it stopped. Where the run's stop file lies, nothing is sent (exit 130).
    """
    run = Run.open(run_name)
    if here:
        _check_here(run, set(names), vantage)
    rejected = False
    behind = _behind(run, vantage) if not here else {}
    if set(names) & SENDING:
        run.check_not_stopped()
        if vantage is not None and repetition is not None and not set(names) & SENDING & set(behind):
            run.settings.vantage_named(vantage)
            warning = clock.compare(run, vantage, repetition, centre_clock)
            if warning is not None:
                terminal.echo(warning, err=True)
    if "watch" not in names and (period is not None or start is not None):
        raise UsageError("--period and --start belong to the stage watch")
    timed = {"period_s": period, "start_ns": None if start is None else _utc_ns(start)}
    for name in names:
        module, at_vantage = STAGES[name]
        if at_vantage:
            if vantage is None or repetition is None:
                raise UsageError(f"stage {name} needs --vantage and --repetition")
            run.settings.vantage_named(vantage)
            if name in behind:
                more = ["--period", f"{period:g}"] if name == "watch" and period is not None else []
                more += ["--start", start] if name == "watch" and start is not None else []
                _elsewhere(run, name, behind[name], (vantage, repetition), [*more, *["--again"] * again])
            else:
                _one(run, name, module, (vantage, repetition), again, timed if name == "watch" else {})
        elif name in behind:
            _elsewhere(run, name, behind[name], (), ["--again"] * again)
            report = run.report(name)
            rejected = rejected or bool(report is not None and report.rejected)
        else:
            # What a vantage point of a schedule loads of a run is its own part.
            place: tuple[()] | tuple[str, int] = ()
            if name == "load" and (vantage is not None or repetition is not None):
                if vantage is None or repetition is None:
                    raise UsageError("stage load takes --vantage and --repetition together, or neither")
                run.settings.vantage_named(vantage)
                place = (vantage, repetition)
            if name == "load" and len(names) > 1:
                # It is confined for good, and the other stages could not do their work so.
                _alone(name, process.stage_argv((), None, [name], run.path, *place))
            else:
                if name == "load":
                    confined.changing(
                        run.settings.store.url, readable=[*reached.paths(run.path)], writable=[run.path]
                    )
                _one(run, name, module, place, again, {})
            report = run.report(name, *place)
            rejected = rejected or bool(report is not None and report.rejected)
    if rejected:  # the rest is done
        sys.exit(1)


def _behind(run: Run, vantage: str | None) -> dict[str, tuple[Command, str | None]]:
    """Stages that do not run here: stage -> command to put before it, and firstflight's path there."""
    found: dict[str, tuple[Command, str | None]] = {}
    if run.settings.centre.command:
        found |= dict.fromkeys(FETCHING, (run.settings.centre.command, None))
    if vantage is not None and (place := run.settings.vantage_named(vantage)).command:
        found |= dict.fromkeys(SENDING, (place.command, place.program))
    return found


def _check_here(run: Run, names: set[str], vantage: str | None) -> None:
    """UsageError if a stage that sends or fetches belongs on a host of the lab, and this is not that host.

    Where no host of that name is in sight, the lab's mark will do: a test's namespace has no names.
    """
    from firstflight.egress.lab import is_lab
    from lab import enter

    for name, (behind, _) in _behind(run, vantage).items():
        host = enter.host_in(behind)
        if name not in names or host is None:
            continue
        on = enter.is_on(host)
        if not (is_lab() if on is None else on):
            raise UsageError(
                f"stage {name} runs on the lab's host {host}, and this is not it: leave --here away, or go "
                f"there by firstflight lab exec {host}; nothing was sent"
            )


def _elsewhere(
    run: Run,
    name: str,
    behind: tuple[Command, str | None],
    place: tuple[()] | tuple[str, int],
    more: Sequence[str],
) -> None:
    """Run a stage behind a command, as the campaign does; ends with its status if it did not get done.

    Whether it did is told by a report that was not there before: the status may be the command's own.
    """
    vantage, repetition = place or (None, None)
    if "--again" not in more and run.done(name, *place):
        terminal.echo(f"{name}: already done", err=True)
        return
    before = run.report(name, *place)
    _hear_signals()
    argv = process.stage_argv(*behind, [name], run.path, vantage, repetition, more)
    status = _ended(name, argv)
    # What an earlier try left says nothing of this one: the command may never have reached the place.
    report = run.report(name, *place)
    if report is not None and report != before and run.done(name, *place):
        return
    if status:
        sys.exit(status)
    raise FirstflightError(
        f"stage {name} did not run: {' '.join(argv[: len(behind[0])])} ended without an error and left no "
        "report of it; see what that command does"
    )


def _alone(name: str, argv: Sequence[str]) -> None:
    """Run a stage as a process of its own; ends with its status if that is not 0."""
    _hear_signals()
    status = _ended(name, argv)
    if status:
        sys.exit(status)


def _ended(name: str, argv: Sequence[str]) -> int:
    """The status of a process that runs a stage. It is ended in order if this one is."""
    child = children.start(argv)
    try:
        status = child.wait()
    except BaseException:  # it ends in order, as it would have here
        children.stop(child, process.GRACE_S)
        raise
    if status < 0:
        raise FirstflightError(f"stage {name} was ended by signal {-status}")
    return status


def _one(
    run: Run,
    name: str,
    module: str,
    place: tuple[()] | tuple[str, int],
    again: bool,
    options: Mapping[str, object],
) -> None:
    # Loading is idempotent and looks itself at what is new.
    if name != "load" and not again and run.done(name, *place):
        terminal.echo(f"{name}: already done", err=True)
        return
    if again:
        for folder in [name, *(["capture"] if name in ("probe", "watch") else [])]:
            _remove(run.stage_dir(folder, *place))
    _hear_signals()
    importlib.import_module(module).stage(run, *place, **options)


def _remove(folder: Path) -> None:
    """Remove a stage's output; FirstflightError if some of it stays, which would pass for the new one's."""
    with files.said_in_one_sentence(folder), suppress(FileNotFoundError):
        shutil.rmtree(folder)


def _hear_signals() -> None:
    """For each stage anew: an asyncio loop of the one before has put the defaults back. SIGINT by hand, since
    a shell starts background jobs with it ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _interrupted)


def _utc_ns(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"--start {text}: write it like 2026-11-20T12:00:00Z") from error
    if not 2000 <= moment.year < 2200:
        raise UsageError(f"--start {text}: the year must be between 2000 and 2199")
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return int(aware.replace(microsecond=0).timestamp()) * 10**9 + aware.microsecond * 1000


def _interrupted(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise Interrupted("stopped by a signal; what was written is kept")
