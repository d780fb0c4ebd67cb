"""Stop a campaign while its engines are halted: otherwise a busy machine may send everything first."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tests.engines.segments import count_of
from tests.processes import go_on_when_interrupted, halt, running
from tests.waiting import PATIENCE_S, until

from .world import FIRSTFLIGHT, CampaignWorld

ENGINES = ("firstflight-prober", "firstflight-handshake")


def halted(folder: Path) -> int:
    """Halt the engine of the stage with this folder as soon as it runs; return the process ID."""
    stage = json.loads((folder / "report.json").read_text())["pid"]

    def found() -> list[int]:
        for engine in (pid for program in ENGINES for pid in running(stage, program)):
            with suppress(ProcessLookupError):
                halt(engine)
                return [engine]
        return []

    return until(found, f"an engine of the stage in {folder}")[0]


def halted_with(rows: int, folders: Sequence[Path]) -> list[int]:
    """Halt the engine of each of these stages as soon as its closed segments have `rows` rows.

    Return the engines' process IDs. All engines are then under way, even if some start late.
    """
    engines: dict[Path, int] = {}

    def all_are() -> bool:
        for folder in folders:
            if folder not in engines and count_of(folder / "segments") >= rows:
                engines[folder] = halted(folder)
        return len(engines) == len(folders)

    until(all_are, f"{rows} rows in each of {folders}")
    return list(engines.values())


def stop(world: CampaignWorld, run: Path, engines: Sequence[int]) -> str:
    """Stop a run; its halted engines continue once SIGINT is pending. Return the messages of `runs stop`."""
    stopping = subprocess.Popen(
        [*FIRSTFLIGHT, "runs", "stop", run.name],
        env=world.environment,
        cwd=world.folder,
        stderr=subprocess.PIPE,
        text=True,
    )
    go_on_when_interrupted(engines)
    _, messages = stopping.communicate(timeout=PATIENCE_S)
    assert stopping.returncode == 0, messages
    return messages
