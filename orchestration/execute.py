"""Runs a stage: in this process, as a child process, or by the command of a vantage point or the centre."""

from __future__ import annotations

import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

from firstflight.errors import FirstflightError, Interrupted
from firstflight.layout import StageKey
from firstflight.run.engines import await_engine
from firstflight.run.run import Run
from firstflight.settings.types import Command
from firstflight.system import files, lock, terminal
from orchestration import runner, stage_input, stages
from orchestration.stages import Stage

BUSY_S = 30.0
"""Seconds for which a user's stage waits for another process that runs the same stage."""
LOOK_S = 1.0
"""How often a stage that waits looks for the run's stop file."""


def remote_commands(run: Run, vantage: str | None) -> dict[str, tuple[Command, str | None]]:
    """Return the stages that run elsewhere: stage -> command prefix, and firstflight's path there."""
    commands: dict[str, tuple[Command, str | None]] = {}
    if run.settings.centre.command:
        fetching = [stage.name for stage in stages.STAGES if stage.fetches]
        commands |= dict.fromkeys(fetching, (run.settings.centre.command, None))
    if vantage is not None and (remote := run.settings.vantage_named(vantage)).command:
        sending = [stage.name for stage in stages.STAGES if stage.sends]
        commands |= dict.fromkeys(sending, (remote.command, remote.program))
    return commands


def run_remote(
    run: Run, stage: Stage, command: tuple[Command, str | None], key: StageKey | None, options: Sequence[str]
) -> None:
    """Run a stage by a command prefix, as the campaign does; exit with its status if it did not succeed.

    Success requires a new report of the stage: the exit status may be the prefix command's own.
    """
    name = stage.name
    if "--again" not in options and run.done(name, key):
        terminal.echo(f"{name}: already done", err=True)
        return
    before = run.report(name, key)
    _install_signal_handlers()
    argv = runner.stage_argv(*command, [name], run.path, key, options)
    status = _run_process(name, argv, behind=True)
    # A report of an earlier attempt does not count: the command may not have started the stage.
    report = run.report(name, key)
    if report is not None and report != before and run.done(name, key):
        return
    if status:
        sys.exit(status)
    raise FirstflightError(
        f"stage {name} did not run: {' '.join(argv[: len(command[0])])} ended without an error and left no "
        "report; check that command"
    )


def run_alone(name: str, argv: Sequence[str]) -> None:
    """Run a stage as a child process; exit with its status if that is not 0."""
    _install_signal_handlers()
    status = _run_process(name, argv)
    if status:
        sys.exit(status)


def _run_process(name: str, argv: Sequence[str], *, behind: bool = False) -> int:
    """Run a stage's process on this terminal, or by a command, and return its exit status."""
    status = runner.run_in_terminal(argv, behind=behind)
    if status < 0:
        raise FirstflightError(f"stage {name} was killed by signal {-status}")
    return status


def run_here(
    run: Run,
    stage: Stage,
    key: StageKey | None,
    again: bool,
    arguments: Mapping[str, object],
    *,
    patient: bool = False,
) -> None:
    """Run a stage in this process, unless it is done; with `again` replace its output.

    The old output is removed first, unless the stage replaces it atomically. With `patient`, wait while
    another process runs the same stage, so that a campaign does not fail because a user started the stage,
    too. Otherwise raise UsageError after 30 s.
    """
    if patient:
        _install_signal_handlers()
        _await_other(run, stage, key)
    if not stage.looks_itself and not again and run.done(stage.name, key):
        terminal.echo(f"{stage.name}: already done", err=True)
        return
    _install_signal_handlers()
    if again and not stage.replaces:
        # Never remove the output while another process works on it.
        with lock.locked(run.layout.stage_lock(stage.name, key), f"stage {stage.name}", wait_s=BUSY_S):
            for folder in stage.folders:
                _remove(run, run.layout.stage(folder, key))
    keys = () if key is None else (key,)
    stage.function()(run, *keys, **arguments)


def end_with_campaign() -> None:
    """Stop this process's stages gracefully when the campaign that started them by a command exits."""
    _install_signal_handlers()
    stage_input.end_with_input()


def _remove(run: Run, folder: Path) -> None:
    """Remove a stage's output; FirstflightError if files remain, because they would look like new output.

    Waits for engines that still write to it, because their locks are removed with the folders.
    """
    for output_folder in (folder, *folder.rglob("segments")):
        await_engine(output_folder, run.check_not_stopped)
    with files.explain_os_errors(folder), suppress(FileNotFoundError):
        shutil.rmtree(folder)


def _await_other(run: Run, stage: Stage, key: StageKey | None) -> None:
    """Wait until no other process runs the stage, or until the run is stopped."""
    path = run.layout.stage_lock(stage.name, key)
    holder = lock.holder_pid(path)
    if not lock.is_locked(path):
        return
    terminal.echo(f"{stage.name}: waiting for process {holder or '?'}, which runs the same stage", err=True)
    while not lock.wait_until_free(path, LOOK_S):
        run.check_not_stopped()


def _install_signal_handlers() -> None:
    """Set the signal handlers before each stage: the asyncio loop of the previous one restored the defaults.

    Also sets SIGINT, because a shell starts background jobs with it ignored.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _raise_interrupted)


def _raise_interrupted(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise Interrupted("stopped by a signal; written data is kept")
