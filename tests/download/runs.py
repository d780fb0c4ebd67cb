"""What tests of the download stage share: its settings, the stage as a process, its clients."""

from __future__ import annotations

import subprocess
from pathlib import Path

from firstflight.run.run import Run
from tests.download.world import SERVER_V4, SERVER_V6, World
from tests.waiting import until

SETS = ["bl", "all14"]
HERE = ("--vantage", "here", "--repetition", "1", "--here")
FILES = [("small", SERVER_V4), ("one", SERVER_V6), ("small", "")]


def stage(world: World, run: Run, *more: str) -> str:
    done = world.run("stage", "download", "--run", run.id, *HERE, *more)
    assert done.returncode == 0, done.stderr
    return done.stderr


def begun(process: subprocess.Popen[bytes], answers: Path, count: int) -> None:
    """Wait until a stage has kept so many answers."""

    def there() -> bool:
        assert process.poll() is None, "the stage has ended"
        return answers.is_file() and answers.read_bytes().count(b"\n") >= count

    until(there, f"{count} downloads")


def child_of(parent: int, text: str) -> int:
    """Return the process below `parent` that has this as one of its arguments or environment variables."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            texts = (folder / "environ").read_bytes() + (folder / "cmdline").read_bytes()
            status = (folder / "status").read_text()
        except OSError:
            continue
        if text.encode() in texts.split(b"\0") and f"PPid:\t{parent}\n" in status:
            return int(folder.name)
    raise AssertionError(f"no process below {parent} has {text}")
