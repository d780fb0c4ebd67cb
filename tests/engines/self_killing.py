"""Runs a stage that kills itself with SIGKILL before its Nth step."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from firstflight.layout import StageKey

# Each run is a fork of a process that has already imported the stage's modules.
_PROGRAM = """
import importlib, json, os, shutil, signal, sys, traceback
from pathlib import Path
from firstflight.run.run import Run
from firstflight.system.reporting import reading
from scanner.driver import process
stage = importlib.import_module(sys.argv[1]).stage
left, engines = 0, 0
def counted(function):
    def call(*arguments, **options):
        global left
        # The number of writes of progress depends on time, so they are not steps.
        shown = str(arguments[0]).endswith("progress.json") or "progress" in str(arguments[1:2])
        left -= engines <= 0 and not shown
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **options)
    return call
def ended(function):
    def call(*arguments, **options):
        global engines
        result = function(*arguments, **options)
        engines -= 1
        return result
    return call
Path.replace = counted(Path.replace)
Path.unlink = counted(Path.unlink)
shutil.rmtree = counted(shutil.rmtree)
reading.wait_for_exit = counted(reading.wait_for_exit)
process.run = ended(process.run)
for line in sys.stdin:
    folder, vantage, repetition, left, engines = json.loads(line)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            run = Run.open(folder)
            stage(run, run.key(vantage, repetition))
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Runs:
    """A context manager that runs a module's stage, each time in a separate process.

    A step is the rename or removal of a file, the removal of a folder, or the exit of a program that reads
    captures.
    """

    def __init__(self, module: str) -> None:
        self._argv = [sys.executable, "-c", _PROGRAM, module]

    def __enter__(self) -> Self:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(self._argv, stdin=pipe, stdout=pipe, text=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()

    def killed_before(self, step: int, run: Path, key: StageKey, *, engines: int = 0) -> bool:
        """Run the stage of `key` in the run at `run`; return whether it reached that step and was killed.

        Steps count from 1, starting when `engines` engines have finished. Raises AssertionError if the stage
        failed.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        print(
            json.dumps([str(run), key.vantage, key.repetition, step, engines]),
            file=self._process.stdin,
            flush=True,
        )
        status = int(self._process.stdout.readline() or 1)
        assert status in (0, -signal.SIGKILL), "the stage failed: see above"
        return status != 0
