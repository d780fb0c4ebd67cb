"""Shared helpers for tests of the download stage: its settings, the stage as a process, its clients."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from firstflight.run.run import Run
from tests.download.world import SERVER_V4, SERVER_V6, DownloadWorld
from tests.waiting import until

SETS = ["bl", "all14"]
HERE = ("--vantage", "here", "--repetition", "1", "--here")
FILES = [("small", SERVER_V4), ("one", SERVER_V6), ("small", "")]


def stage(world: DownloadWorld, run: Run, *more: str) -> str:
    done = world.run("stage", "download", "--run", run.id, *HERE, *more)
    assert done.returncode == 0, done.stderr
    return done.stderr


def pause(run: Run, seconds: float) -> None:
    """Set the pause between two downloads in a run, for stages that start later.

    A long pause gives a test time to act between two downloads.
    """
    settings = json.loads(run.layout.settings.read_text())
    settings["download"]["pause_s"] = seconds
    run.layout.settings.write_text(json.dumps(settings))


def wait_for_answers(process: subprocess.Popen[bytes], answers: Path, count: int) -> None:
    """Wait until a stage has written `count` answers."""

    def has_answers() -> bool:
        assert process.poll() is None, "the stage has ended"
        return answers.is_file() and answers.read_bytes().count(b"\n") >= count

    until(has_answers, f"{count} downloads")


def child_of(parent: int, text: str) -> int:
    """Wait for a process below `parent` that has this as an argument or environment variable; return it."""

    def found() -> int | None:
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                texts = (folder / "environ").read_bytes() + (folder / "cmdline").read_bytes()
                status = (folder / "status").read_text()
            except OSError:
                continue
            if text.encode() in texts.split(b"\0") and f"PPid:\t{parent}\n" in status:
                return int(folder.name)
        return None

    return until(found, f"a process below {parent} that has {text}") or 0
