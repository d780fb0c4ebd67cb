"""The commands that repeat trials, for an experiment's page."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from testbed.experiment.experiment import Experiment, chosen
from testbed.trials import estimate
from testbed.trials.trial_row import TrialRow


def commands(
    shown: str, of: Mapping[str, tuple[Experiment, Sequence[TrialRow]]], *, verified: bool = True
) -> list[str]:
    """Return the commands that repeat trials and show them as `shown`.

    `of`: experiments and their rows. Keys are names or files, quoted for a shell. `verified`: include the
    commands that compare two runs, which accept no files.
    """
    runs, verifies = [], []
    for argument, (experiment, rows) in of.items():
        repetitions = max([row["repetition"] for row in rows], default=experiment.repetitions)
        seeds = "" if repetitions == experiment.repetitions else f" --seeds {repetitions}"
        cells = _cells(experiment, rows)
        runs.append(f"firstflight testbed run {argument} --jobs 2{seeds}{cells}")
        most = min(repetitions, estimate.LENGTH)
        verifies.append(f"firstflight testbed verify {argument} --seeds {most}{cells}")
    lines = ["make testbed-setup", *runs, f"firstflight testbed show {shown}"]
    return [*lines, *verifies] if verified else lines


def _cells(experiment: Experiment, rows: Sequence[TrialRow]) -> str:
    """Return the option that selects the cells of `rows`, with a leading space; empty for all cells."""
    cells = experiment.cells()
    names = {row["cell"] for row in rows}
    named_cells = [cell for cell in cells if cell.name in names]
    if len(named_cells) in (0, len(cells)):
        return ""
    patterns = tuple(dict.fromkeys(f"{cell.client}-{cell.server}-" for cell in named_cells))
    if chosen(experiment, patterns) != named_cells:
        patterns = tuple(cell.name for cell in named_cells)
    return f" --cells {shlex.quote(','.join(patterns))}"
