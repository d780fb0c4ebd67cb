"""A block: some repetitions of a cell in a guest, and a row for each trial.

Experiment, cell and first repetition determine the guest's seed. A guest's first trial is repetition 0, which
does not count: it reads programs and libraries for the first time, and a guest's clock advances while it
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

from pydantic_core import to_json

from firstflight.errors import FirstflightError
from firstflight.system import binaries, files
from testbed import stacks
from testbed.choices import HTTP
from testbed.experiment.cell import Cell
from testbed.guest import guest, kernel
from testbed.trials import estimate, trial_row, unavailable
from testbed.trials.captures import dissected
from testbed.trials.captures.block_files import CAPTURE, KEYS, ROWS, SENT, TRIALS
from testbed.trials.trial_row import TrialRow

TIMEOUT_S = 60.0
"""Time limit for a trial, in the guest's time, with a loss of at most 1 %."""
SEEDING = (
    *("client", "server", "answering", "rtt_ms", "delay_to_server_ms", "rate_mbit", "rate_to_server_mbit"),
    *("queue_packets", "queue_to_server_packets", "queue_bytes", "qdisc", "gso", "gso_paced"),
    *("certificate_bytes", "certificate_key", "certificate_delay_ms", "loss_percent"),
    *("netem_loss_to_client_percent", "netem_loss_to_server_percent", "drop_to_client", "drop_to_server"),
    *("drop_second_flight", "reorder_to_client", "reorder_to_server", "reorder_percent", "reorder_ms"),
    *("body_bytes", "congestion_control", "ack_ratio", "ack_delay_ms", "ack_reordering"),
    *("named", "client_qlog", "server_log", "ack_ratio_later", "ack_ratio_later_after"),
    *("handshake", "gso_segments", "server_qlog", "alpn", "responses", "think_ms"),
)
"""A cell's fields in the order of a seed's text. Add new fields at the end, and to `_ADDED`."""
_ADDED = (
    *("client_qlog", "server_log", "gso_paced", "named", "certificate_key", "delay_to_server_ms"),
    *("netem_loss_to_client_percent", "netem_loss_to_server_percent"),
    *("reorder_to_client", "reorder_to_server", "reorder_percent", "reorder_ms"),
    *("ack_ratio_later", "ack_ratio_later_after", "handshake", "gso_segments"),
    *("server_qlog", "alpn", "responses", "think_ms"),
)
"""Fields that are in a seed's text only if they differ from their defaults."""
_FOLDER = re.compile(r"(\d{4,6})-(\d{4,6})")


@dataclass(frozen=True)
class TrialBlock:
    """Repetitions `first` to `last` (from 1) of a cell of an experiment."""

    experiment: str
    cell: Cell
    first: int
    last: int

    @property
    def name(self) -> str:
        """Return the block's folder, relative to the experiment's."""
        return f"{self.cell.name}/{self.first:04d}-{self.last:04d}"

    @property
    def seed(self) -> int:
        """Return the seed of the guest's random numbers."""
        text = f"{self.experiment}\n{seed_text(self.cell)}\n{self.first}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")

    @property
    def trials(self) -> int:
        """Return the number of trials, without repetition 0."""
        return self.last - self.first + 1

    @property
    def cpu_s(self) -> float:
        """Return the estimated CPU seconds of the guest."""
        return estimate.cpu_s(self.cell, self.trials)

    @property
    def limit_s(self) -> float:
        """Return its guest's time limit, in seconds of the host's clock."""
        return estimate.limit_s(self.cell, self.trials)

    @property
    def memory_mb(self) -> int:
        """Return its guest's memory."""
        return estimate.memory_mb(self.cell, self.trials)

    def has_made(self, rows: Sequence[TrialRow]) -> bool:
        """Return whether `rows` are this block's, not from a same-named cell with other conditions."""
        conditions = trial_row.conditions(self.cell)
        # Rows without a guest have no seed.
        return all(
            row["seed"] == self.seed
            if row["seed"] is not None
            else all(row[name] == value for name, value in conditions.items() if name in row)
            for row in rows
        )

    def check(self) -> None:
        """Raise UsageError if a guest cannot start here, because a program is not built."""
        client, server = stacks.find(self.cell.client), stacks.find(self.cell.server)
        client.client_command(logged=self.cell.client_qlog)
        server.server_command()
        binaries.find("firstflight-dissect")

    def unavailable(self) -> str | None:
        """Return why the trials cannot run here, or `None`."""
        return unavailable.why(self.cell)


def seed_text(cell: Cell, left_out: Sequence[str] = _ADDED) -> str:
    """Return a cell as JSON, in an order that never changes; `left_out`: fields to omit at their defaults."""
    # Use the model's form of numbers: 9.0, not 9.
    given = json.loads(cell.model_dump_json())
    plain = {name for name in left_out if getattr(cell, name) == Cell.model_fields[name].default}
    return to_json({name: given[name] for name in SEEDING if name not in plain}).decode()


def check(chosen: Sequence[TrialBlock], jobs: int) -> None:
    """Raise UsageError if the guests of blocks cannot start here, `jobs` at a time.

    Reasons: a program or the kernel is not built, or there is too little memory. Unavailable blocks need
    nothing.
    """
    available = [block for block in chosen if block.unavailable() is None]
    for block in available:
        block.check()
    if available:
        kernel.find()
        # A guest's memory file grows while it runs: another guest may need the memory free at its start.
        guest.check_shared_memory(*sorted((block.memory_mb for block in available), reverse=True)[:jobs])


def blocks(
    experiment: str, cell: Cell, repetitions: int, kept: Sequence[TrialBlock] = ()
) -> list[TrialBlock]:
    """Return a cell's blocks for the repetitions missing in `kept`."""
    numbers = {number for block in kept for number in range(block.first, block.last + 1)}
    missing_blocks: list[TrialBlock] = []
    most = estimate.length(cell)
    for first in range(1, repetitions + 1, most):
        for number in range(first, min(first + most - 1, repetitions) + 1):
            if number in numbers:
                continue
            if missing_blocks and first <= missing_blocks[-1].first and missing_blocks[-1].last == number - 1:
                missing_blocks[-1] = replace(missing_blocks[-1], last=number)
            else:
                missing_blocks.append(TrialBlock(experiment, cell, number, number))
    return missing_blocks


def complete(folder: Path, experiment: str, cell: Cell) -> list[TrialBlock]:
    """Return a cell's blocks in an experiment's folder, ordered by first repetition."""
    matches = [_FOLDER.fullmatch(rows.parent.name) for rows in (folder / cell.name).glob(f"*/{ROWS}")]
    return sorted(
        (
            TrialBlock(experiment, cell, int(match[1]), int(match[2]))
            for match in matches
            if match is not None
        ),
        key=lambda block: (block.first, block.last),
    )


def run(block: TrialBlock, folder: Path, *, captures: bool = True) -> list[TrialRow]:
    """Run a block's trials in a guest. Return their rows, also written to ROWS in `folder`.

    A rename creates `folder` atomically with all its files. Without `captures` it contains only ROWS and
    logs. UsageError: no kernel, or a program is not built. Other failures become the trials' outcome.
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


def timeout_s(cell: Cell) -> float:
    """Return the time limit for a trial of a cell in seconds, in proportion to the loss above 1 %.

    The pauses between responses are added.
    """
    return TIMEOUT_S * max(1.0, cell.loss_percent) + (cell.responses - 1) * cell.think_ms / 1000


def job(block: TrialBlock) -> dict[str, Any]:
    """Return the input of `inside` for a block in a guest. UsageError: a program is not built."""
    client, server = stacks.find(block.cell.client), stacks.find(block.cell.server)
    alpn = client.protocol(block.cell.alpn)
    return {
        "cell": block.cell.model_dump(),
        "first": block.first,
        "last": block.last,
        "client": client.client_command(logged=block.cell.client_qlog),
        "http": HTTP[alpn],
        "alpn": alpn,
        "timeout_s": timeout_s(block.cell),
        "dissect": str(binaries.find("firstflight-dissect")),
        "server": server.server_command(),
        "launch_times": server.launch_times,
        "folder": "/tmp/trials",
        "link": None,
    }


def artifact_rows(block: TrialBlock, folder: Path, stderr: bytes, **of_run: object) -> list[TrialRow]:
    """Return the rows for the files of testbed/trials/inside.py in `folder`, and its standard error.

    `of_run`: columns that all trials share.
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


def _trials(block: TrialBlock, folder: Path) -> list[TrialRow]:
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
    return artifact_rows(
        block,
        folder,
        done.stderr,
        seed=block.seed,
        kernel=kernel.find().parent.name,
        guest_cpu_s=round(done.cpu_s / block.trials, 6),
    )


def _rows(block: TrialBlock, outcome: str, detail: str, **of_guest: object) -> list[TrialRow]:
    """Return a row for each unfinished trial in a block; `of_guest`: the known columns about the guest."""
    row = trial_row.without_trial(block.experiment, block.cell, 0, outcome, detail)
    return [{**row, "repetition": number, **of_guest} for number in range(block.first, block.last + 1)]
