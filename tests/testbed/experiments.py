"""Helpers that load the testbed's experiments and compute results from rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from testbed import experiment_files, measures
from testbed.experiment.experiment import Experiment
from testbed.trials.trial_row import TrialRow


def find(name: str) -> Any:
    """Return an experiment as its measure's model."""
    return experiment_files.find(name)


def lines(experiment: Experiment, rows: Sequence[TrialRow], folder: Path = Path()) -> Sequence[Any]:
    """Return the lines of `rows`."""
    return measures.results(experiment, folder, rows).lines


def text(experiment: Experiment, rows: Sequence[TrialRow], folder: Path = Path()) -> str:
    """Return the summary of `rows` as text."""
    return measures.results(experiment, folder, rows).summary().text(terminal=False)
