"""Programs that run a stage and kill themselves with -9 before its Nth step."""

from __future__ import annotations

_PROGRAM = """
import os, shutil, signal, sys
from pathlib import Path
from {module} import stage
from firstflight.run.run import Run
from firstflight.system import reading
left = int(sys.argv[2])
def counted(function):
    def call(*arguments, **options):
        global left
        # Progress is written as often as time passes.
        left -= not str(arguments[0]).endswith("progress.json") and "progress" not in str(arguments[1:2])
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **options)
    return call
Path.replace = counted(Path.replace)
Path.unlink = counted(Path.unlink)
shutil.rmtree = counted(shutil.rmtree)
reading.finished = counted(reading.finished)
run = Run.open(sys.argv[1])
stage(run, run.key("here", 1))
"""


def program(module: str) -> str:
    """Return the text of a program with two arguments, a run's folder and N, for the stage in `module`.

    Steps: a file gets its name or is removed, a folder is removed, a program that reads captures has ended.
    """
    return _PROGRAM.format(module=module)
