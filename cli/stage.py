"""`firstflight stage NAME`: one stage of a run, alone; the campaign runs each stage through this."""

from __future__ import annotations

import importlib
import shutil
import signal
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from types import FrameType
from typing import NoReturn

import click

from firstflight import clock
from firstflight.errors import Interrupted, UsageError
from firstflight.runs import Run
from firstflight.setting_types import DAY_S

_EPILOG = """Example: firstflight stage probe --run 20261120T063905Z-a1b2c3 --vantage hamburg --repetition 1

Example: firstflight stage watch --run 20261120T063905Z-a1b2c3 --vantage hamburg --repetition 7 --period 3600
--start 2026-11-20T12:00:00Z"""

# stage -> (module with a function `stage`, whether it belongs to a vantage point and repetition)
STAGES: dict[str, tuple[str, bool]] = {
    "targets": ("crawler.targets", False),
    "as_data": ("crawler.as_data", False),
    "resolve": ("scanner.resolve", True),
    "probe": ("scanner.probe", True),
    "dissect": ("dissector.stage", True),
    "watch": ("scanner.watch", True),
    "load": ("firstflight.loader", False),
}

# Stages that send packets to those who are measured, or ask about them.
SENDING = {"resolve", "probe", "watch"}


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
@click.option("--again", is_flag=True, help="Do it again although it is done; its output is replaced.")
def command(
    names: tuple[str, ...],
    run_name: str,
    vantage: str | None,
    repetition: int | None,
    period: float | None,
    start: str | None,
    centre_clock: int | None,
    again: bool,
) -> None:
    """Run stages of a run, one after the other (targets, as_data, resolve, probe, dissect, watch, load).

    A stage that is done is left alone; one that was cut goes on where it stopped. Where the run's stop file
    lies, nothing is sent (exit 130).
    """
    run = Run.open(run_name)
    rejected = False
    if set(names) & SENDING:
        run.check_not_stopped()
        if vantage is not None and repetition is not None:
            run.settings.vantage_named(vantage)
            warning = clock.compare(run, vantage, repetition, centre_clock)
            if warning is not None:
                click.echo(warning, err=True)
    if "watch" not in names and (period is not None or start is not None):
        raise UsageError("--period and --start belong to the stage watch")
    timed = {"period_s": period, "start_ns": None if start is None else _utc_ns(start)}
    for name in names:
        module, at_vantage = STAGES[name]
        if at_vantage:
            if vantage is None or repetition is None:
                raise UsageError(f"stage {name} needs --vantage and --repetition")
            run.settings.vantage_named(vantage)
            _one(run, name, module, (vantage, repetition), again, timed if name == "watch" else {})
        else:
            # What a vantage point of a schedule loads of a run is its own part.
            place: tuple[()] | tuple[str, int] = ()
            if name == "load" and (vantage is not None or repetition is not None):
                if vantage is None or repetition is None:
                    raise UsageError("stage load takes --vantage and --repetition together, or neither")
                run.settings.vantage_named(vantage)
                place = (vantage, repetition)
            _one(run, name, module, place, again, {})
            report = run.report(name, *place)
            rejected = rejected or bool(report is not None and report.rejected)
    if rejected:  # the rest is done
        sys.exit(1)


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
        click.echo(f"{name}: already done", err=True)
        return
    if again:
        shutil.rmtree(run.stage_dir(name, *place), ignore_errors=True)
        if name in ("probe", "watch"):
            shutil.rmtree(run.stage_dir("capture", *place), ignore_errors=True)
    # For each stage anew: an asyncio loop of the one before has put the defaults back. SIGINT by hand, since
    # a shell starts background jobs with it ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _interrupted)
    importlib.import_module(module).stage(run, *place, **options)


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
