"""A block: some repetitions of one cell in one guest, and a row for each trial.

Experiment, cell and first repetition determine the guest's seed. A guest's first trial is repetition 0, which
is not counted: it reads programs and libraries for the first time, and a guest's clock advances while it
waits for a host file.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from firstflight.errors import FirstflightError
from firstflight.system import binaries, files
from testbed import stacks
from testbed.experiment.cell import Cell
from testbed.guest import guest, kernel
from testbed.trials import estimate, trial_row, unavailable
from testbed.trials.captures import dissected
from testbed.trials.captures.block_files import CAPTURE, KEYS, ROWS, SENT, TRIALS
from testbed.trials.trial_row import Row

TIMEOUT_S = 60.0
"""Of a trial, in the guest's time."""
_ADDED = (
    *("client_qlog", "server_log", "gso_paced", "named", "certificate_key", "delay_to_server_ms"),
    *("netem_loss_to_client_percent", "netem_loss_to_server_percent"),
    *("reorder_to_client", "reorder_to_server", "reorder_percent", "reorder_ms"),
)
"""Fields of cells that count in a seed only where they differ from their defaults."""
_FOLDER = re.compile(r"(\d{4,6})-(\d{4,6})")


@dataclass(frozen=True)
class Block:
    """Repetitions `first` to `last` (from 1) of a cell of an experiment."""

    experiment: str
    cell: Cell
    first: int
    last: int

    @property
    def name(self) -> str:
        """Return the block's folder below the experiment's."""
        return f"{self.cell.name}/{self.first:04d}-{self.last:04d}"

    @property
    def seed(self) -> int:
        """Return the seed of the guest's random numbers."""
        # Cells without these have the seeds that they had before there were such.
        left_out = {name for name in _ADDED if getattr(self.cell, name) == Cell.model_fields[name].default}
        text = f"{self.experiment}\n{self.cell.model_dump_json(exclude=left_out)}\n{self.first}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")

    @property
    def trials(self) -> int:
        """Return the number of its trials, without repetition 0."""
        return self.last - self.first + 1

    @property
    def cpu_s(self) -> float:
        """Return the estimated CPU seconds of its guest."""
        return estimate.cpu_s(self.cell, self.trials)

    @property
    def limit_s(self) -> float:
        """Return its guest's time limit, in seconds of the host's clock."""
        return estimate.limit_s(self.cell, self.trials)

    @property
    def memory_mb(self) -> int:
        """Return its guest's memory."""
        return estimate.memory_mb(self.cell, self.trials)

    def has_made(self, rows: Sequence[Row]) -> bool:
        """Return whether `rows` are this block's, not a same-named cell's under other conditions."""
        conditions = trial_row.conditions(self.cell)
        # Without a guest there was no seed.
        return all(
            row["seed"] == self.seed
            if row["seed"] is not None
            else all(row[name] == value for name, value in conditions.items() if name in row)
            for row in rows
        )

    def check(self) -> None:
        """Raise UsageError if its guest could not be started here, because a program is not built."""
        client, server = stacks.find(self.cell.client), stacks.find(self.cell.server)
        client.client_command(logged=self.cell.client_qlog)
        server.server_command()
        binaries.find("firstflight-dissect")

    def unavailable(self) -> str | None:
        """Return why its trials cannot be done here, or None."""
        return unavailable.why(self.cell)


def check(chosen: Sequence[Block], jobs: int) -> None:
    """Raise UsageError if guests of blocks could not be started here, `jobs` at a time.

    A program or the kernel is not built, or there is too little memory. Blocks that are unavailable need
    nothing.
    """
    here = [one for one in chosen if one.unavailable() is None]
    for one in here:
        one.check()
    if here:
        kernel.find()
        # A guest's memory file grows while it runs: another guest may need the memory free at its start.
        guest.check_shared_memory(*sorted((one.memory_mb for one in here), reverse=True)[:jobs])


def blocks(experiment: str, cell: Cell, repetitions: int, kept: Sequence[Block] = ()) -> list[Block]:
    """Return the blocks of a cell for the repetitions missing in `kept`."""
    there = {number for one in kept for number in range(one.first, one.last + 1)}
    made: list[Block] = []
    most = estimate.length(cell)
    for first in range(1, repetitions + 1, most):
        for number in range(first, min(first + most - 1, repetitions) + 1):
            if number in there:
                continue
            if made and first <= made[-1].first and made[-1].last == number - 1:
                made[-1] = replace(made[-1], last=number)
            else:
                made.append(Block(experiment, cell, number, number))
    return made


def complete(folder: Path, experiment: str, cell: Cell) -> list[Block]:
    """Return a cell's blocks in an experiment's folder, ordered by first repetition."""
    found = [_FOLDER.fullmatch(rows.parent.name) for rows in (folder / cell.name).glob(f"*/{ROWS}")]
    return sorted(
        (Block(experiment, cell, int(one[1]), int(one[2])) for one in found if one is not None),
        key=lambda one: (one.first, one.last),
    )


def run(block: Block, folder: Path, *, captures: bool = True) -> list[Row]:
    """Run the trials of a block in a guest. Return their rows, also written to ROWS in `folder`.

    A rename creates `folder` atomically with all its files. Without `captures` it contains only ROWS and
    logs. UsageError: no kernel, or a program is not built. Other failures become the outcome of its trials.
    """
    with files.explain_os_errors(folder):
        part = folder.with_name(f"{folder.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        why = block.unavailable()
        rows = _trials(block, part) if why is None else _rows(block, "unavailable", why)
        for name, column in ((CAPTURE, "capture_file"), (KEYS, "keys_file")):
            if not captures:
                (part / name).unlink(missing_ok=True)
                (part / SENT).unlink(missing_ok=True)
            elif (part / name).is_file():
                rows = [{**row, column: f"{block.name}/{name}"} for row in rows]
        (part / ROWS).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        part.rename(folder)
    return rows


def job(block: Block) -> dict[str, Any]:
    """Return what `inside` is to do for a block in a guest. UsageError: a program is not built."""
    client, server = stacks.find(block.cell.client), stacks.find(block.cell.server)
    return {
        "cell": block.cell.model_dump(),
        "first": block.first,
        "last": block.last,
        "client": client.client_command(logged=block.cell.client_qlog),
        "http": client.http,
        "alpn": client.alpn,
        "timeout_s": TIMEOUT_S,
        "dissect": str(binaries.find("firstflight-dissect")),
        "server": server.server_command(),
        "launch_times": server.launch_times,
        "folder": "/tmp/trials",
        "link": None,
    }


def left(block: Block, folder: Path, stderr: bytes, **of_run: object) -> list[Row]:
    """Return the rows of what testbed/trials/inside.py left in `folder`, and its standard error.

    `of_run`: columns that all trials have in common.
    """
    by_number = trial_row.by_repetition(folder / TRIALS)
    captured = dissected.of_block(block.cell, folder)
    last_lines = stderr.decode(errors="replace").strip().splitlines() or ["the guest gave no reason"]
    return [
        trial_row.of_trial(row, by_number[row["repetition"]], captured)
        if row["repetition"] in by_number
        else row
        for row in _rows(block, "guest_failed", last_lines[-1], **of_run)
    ]


def _trials(block: Block, folder: Path) -> list[Row]:
    files.write_json(folder / "job.json", job(block))
    root = binaries.repository()
    client, server = stacks.find(block.cell.client), stacks.find(block.cell.server)
    beside = {*client.folders(block.cell.client), *server.folders(block.cell.server)}
    try:
        done = guest.run(
            [sys.executable, "-P", "-m", "testbed.trials.inside"],
            folder,
            seed=block.seed,
            limit_s=block.limit_s,
            memory_mb=block.memory_mb,
            still=not client.polls,
            environment={"PYTHONPATH": str(root)},
            visible=[root, Path(sys.prefix), *sorted(beside)],
        )
    except FirstflightError as error:
        if error.exit_status == 2:
            raise
        return _rows(block, "guest_failed", str(error), seed=block.seed)
    (folder / "guest.log").write_bytes(done.stderr)
    return left(
        block,
        folder,
        done.stderr,
        seed=block.seed,
        kernel=kernel.find().parent.name,
        guest_cpu_s=round(done.cpu_s / block.trials, 6),
    )


def _rows(block: Block, outcome: str, detail: str, **of_guest: object) -> list[Row]:
    """Return a row for each unfinished trial of a block; `of_guest`: the known columns about the guest."""
    made = trial_row.without_trial(block.experiment, block.cell, 0, outcome, detail)
    return [{**made, "repetition": number, **of_guest} for number in range(block.first, block.last + 1)]
