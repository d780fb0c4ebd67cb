"""The commands that make trials again, as the page of an experiment names them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from testbed.experiment.experiment import Experiment, chosen
from testbed.trials import estimate
from testbed.trials.trial_row import Row


def commands(
    shown: str, of: Mapping[str, tuple[Experiment, Sequence[Row]]], *, verified: bool = True
) -> list[str]:
    """Return the commands that repeat trials and show them as `shown`.

    `of`: experiments and their rows, keyed by name or file, quoted for a shell. `verified`: include the
    commands that compare two runs, which accept no files.
    """
    runs, verifies = [], []
    for what, (experiment, rows) in of.items():
        repetitions = max([row["repetition"] for row in rows], default=experiment.repetitions)
        seeds = "" if repetitions == experiment.repetitions else f" --seeds {repetitions}"
        cells = _cells(experiment, rows)
        runs.append(f"firstflight testbed run {what} --jobs 2{seeds}{cells}")
        most = min(repetitions, estimate.LENGTH)
        verifies.append(f"firstflight testbed verify {what} --seeds {most}{cells}")
    made = ["make testbed-setup", *runs, f"firstflight testbed show {shown}"]
    return [*made, *verifies] if verified else made


def _cells(experiment: Experiment, rows: Sequence[Row]) -> str:
    """Return the option that chooses the cells of `rows`, with a space before it; empty if these are all."""
    cells = experiment.cells()
    names = {row["cell"] for row in rows}
    own = [cell for cell in cells if cell.name in names]
    if len(own) in (0, len(cells)):
        return ""
    patterns = tuple(dict.fromkeys(f"{cell.client}-{cell.server}-" for cell in own))
    if chosen(experiment, patterns) != own:
        patterns = tuple(cell.name for cell in own)
    return f" --cells {shlex.quote(','.join(patterns))}"
