"""`firstflight stage NAME`: one stage of a run, alone; the campaign runs each stage through this."""

from __future__ import annotations

import importlib
import shutil
import signal
import sys
from types import FrameType
from typing import NoReturn

import click

from firstflight.errors import Interrupted, UsageError
from firstflight.runs import Run

# stage -> (module with a function `stage`, whether it belongs to a vantage point and repetition)
STAGES: dict[str, tuple[str, bool]] = {
    "targets": ("crawler.targets", False),
    "as_data": ("crawler.as_data", False),
    "resolve": ("scanner.resolve", True),
    "probe": ("scanner.probe", True),
    "dissect": ("dissector.stage", True),
    "load": ("firstflight.loader", False),
}


@click.command(
    epilog="Example: firstflight stage probe --run 20261120T063905Z-a1b2c3 --vantage hamburg --repetition 1"
)
@click.argument("names", nargs=-1, required=True, type=click.Choice(sorted(STAGES)), metavar="NAME...")
@click.option("--run", "run_name", required=True, metavar="RUN", help="Run id, or path of a run's folder.")
@click.option("--vantage", metavar="V", help="Vantage point (resolve, probe, dissect; load: only its files).")
@click.option("--repetition", type=click.IntRange(min=1), metavar="N", help="Repetition, from 1.")
@click.option("--again", is_flag=True, help="Do it again although it is done; its output is replaced.")
def command(
    names: tuple[str, ...], run_name: str, vantage: str | None, repetition: int | None, again: bool
) -> None:
    """Run stages of a campaign's run, one after the other (targets, as_data, resolve, probe, dissect, load).

    A stage that is done is left alone; one that was cut goes on where it stopped.
    """
    run = Run.open(run_name)
    rejected = False
    for name in names:
        module, at_vantage = STAGES[name]
        if at_vantage:
            if vantage is None or repetition is None:
                raise UsageError(f"stage {name} needs --vantage and --repetition")
            run.settings.vantage_named(vantage)
            _one(run, name, module, (vantage, repetition), again)
        else:
            # What a vantage point of a schedule loads of a run is its own part.
            place = (vantage, repetition) if name == "load" and vantage and repetition else ()
            _one(run, name, module, place, again)
            report = run.report(name, *place)
            rejected = rejected or bool(report is not None and report.rejected)
    if rejected:  # the rest is done
        sys.exit(1)


def _one(run: Run, name: str, module: str, place: tuple[()] | tuple[str, int], again: bool) -> None:
    # Loading is idempotent and looks itself at what is new.
    if name != "load" and not again and run.done(name, *place):
        click.echo(f"{name}: already done", err=True)
        return
    if again:
        shutil.rmtree(run.stage_dir(name, *place), ignore_errors=True)
        if name == "probe":
            shutil.rmtree(run.stage_dir("capture", *place), ignore_errors=True)
    # For each stage anew: an asyncio loop of the one before has put the defaults back. SIGINT by hand, since
    # a shell starts background jobs with it ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _interrupted)
    importlib.import_module(module).stage(run, *place)


def _interrupted(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise Interrupted("stopped by a signal; what was written is kept")
