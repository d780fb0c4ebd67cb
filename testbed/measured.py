"""What an experiment measures, as lines and as text: by its `measure`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from testbed import default_pto, gain, paced, shown
from testbed.acks import asymmetry, cells, checks, survey
from testbed.acks import shown as acks_shown
from testbed.experiment import Experiment
from testbed.trial_row import Row


class Line(Protocol):
    """Medians of a cell, of a pair of cells, or of a client."""

    def as_dict(self) -> dict[str, Any]:
        """Return the columns by name."""
        ...


def measured(
    experiment: Experiment, folder: Path, rows: Sequence[Row], *, terminal: bool
) -> tuple[Sequence[Line], Callable[[], str]]:
    """Return the lines of `rows`, and what makes the text of them; `terminal`: with colours and lines.

    `folder` is the experiment's. InputError if what is measured is in captures, and those were not kept.
    """
    if experiment.measure == "default_pto":
        timers = default_pto.clients(experiment, folder, rows)
        return timers, lambda: default_pto.text(experiment, timers, terminal=terminal)
    if experiment.measure == "acks":
        acked = cells.cells(experiment, rows)
        checked = checks.checks(experiment, rows)
        return acked, lambda: acks_shown.acked(experiment, acked, checked, terminal=terminal)
    if experiment.measure == "ack_asymmetry":
        paths = asymmetry.cells(experiment, folder, rows)
        return paths, lambda: acks_shown.asymmetric(experiment, paths, terminal=terminal)
    if experiment.measure == "ack_survey":
        clients = survey.clients(experiment, rows)
        return clients, lambda: acks_shown.surveyed(experiment, clients, terminal=terminal)
    if experiment.measure == "pacing":
        servers = paced.cells(experiment, rows)
        return servers, lambda: paced.text(experiment, servers, terminal=terminal)
    gains = gain.gains(experiment, rows)
    return gains, lambda: shown.text(experiment, gains, terminal=terminal)
