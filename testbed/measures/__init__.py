"""Measures evaluate experiments. A module here is a measure; its file name is the name in TOML files.

Folders hold parts that several measures share.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar

from reports.numbers.compared import ComparisonPanel
from reports.numbers.gridded import Maps
from testbed.experiment.experiment import Experiment
from testbed.summary import SummaryLine, SummaryPage
from testbed.trials.trial_row import TrialRow

E = TypeVar("E", bound=Experiment)


def _no_maps() -> Maps | None:
    return None


@dataclass(frozen=True)
class Results:
    """An experiment's results: lines, and functions that make summary, figure and maps from them."""

    lines: Sequence[SummaryLine]
    summary: Callable[[], SummaryPage]
    figure: Callable[[], Sequence[ComparisonPanel]]
    maps: Callable[[], Maps | None] = _no_maps

    def panels(self) -> list[ComparisonPanel]:
        """Return the non-empty panels of the figure."""
        return [panel for panel in self.figure() if panel.series]


@dataclass(frozen=True)
class Measure(Generic[E]):
    """A measure: the model of an experiment's file, and the function that computes the results.

    `results` takes an experiment, the trials' folder and their rows. It raises InputError if it needs
    captures that were not kept.
    """

    experiment: type[E]
    results: Callable[[E, Path, Sequence[TrialRow]], Results]


def names() -> list[str]:
    """Return the names of all measures, sorted."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.ispkg)


@cache
def find(name: str) -> Measure[Any]:
    """Return the measure with this name, which must be in `names`."""
    measure: Measure[Any] = importlib.import_module(f"{__name__}.{name}").MEASURE
    return measure


def results(experiment: Experiment, folder: Path, rows: Sequence[TrialRow]) -> Results:
    """Return the results of `rows`, by the experiment's measure; `folder`: the trials' folder.

    InputError if the measure needs captures and they were not kept.
    """
    return find(experiment.measure).results(experiment, folder, rows)
