"""The testbed's named experiments, and experiments in a user's files."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from firstflight.errors import UsageError
from firstflight.suggestion import did_you_mean
from reports import published_values
from testbed import measures, toml_file
from testbed.experiment.experiment import Experiment
from testbed.experiment.published import OfPaper

FOLDER = Path(__file__).parent / "experiments"


def read(path: Path) -> Experiment:
    """Return the experiment in a file, as its measure's model. UsageError if it is invalid.

    The result has no published values if these are hidden (reports/published_values.py).
    """
    given = toml_file.tables(path)
    name = given.get("measure", Experiment.model_fields["measure"].default)
    if name not in measures.names():
        known = measures.names()
        raise UsageError(
            f"{path}: measure: {name!r} is none of {', '.join(known)}{did_you_mean(str(name), known)}"
        )
    experiment: Experiment = toml_file.checked(path, given, measures.find(name).experiment)
    return experiment if published_values.are_shown() else _without_published(experiment)


def _without_published(experiment: Experiment) -> Experiment:
    """Return an experiment without the values of papers."""
    of_paper = {
        name: ()
        for name, value in experiment
        if isinstance(value, tuple) and any(isinstance(entry, OfPaper) for entry in value)
    }
    return experiment.model_copy(update=of_paper)


def names() -> list[str]:
    """Return the names of the testbed's experiments, in the order of their files."""
    return [path.stem for path in sorted(FOLDER.glob("*.toml"))]


@cache
def find(name: str) -> Experiment:
    """Return an experiment of the testbed. UsageError lists all names."""
    if name not in names():
        raise UsageError(
            f"there is no experiment {name!r}, only {', '.join(names())}{did_you_mean(name, names())}"
        )
    return read(FOLDER / f"{name}.toml")


def load() -> dict[str, Experiment]:
    """Return a mapping from name to experiment."""
    return {name: find(name) for name in names()}
