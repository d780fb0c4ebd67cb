"""The gain of instant ACK in the time to first byte (paper 000, Figures 5 to 7, 12 and 13)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from testbed.measures import Measure, Results
from testbed.measures.gains import gain_page, panels
from testbed.measures.gains.gain import Gains, Judged, gains
from testbed.trials.trial_row import TrialRow

JUDGED = Judged(
    time="first_stream",
    gain="gain_ms",
    definition="from the client's first packet to the first STREAM frame of the server",
    axis="Time to first byte [ms]",
    gain_axis="Gain in time to first byte [ms]",
)


class FirstStream(Gains):
    """The gain of instant ACK in the time to first byte (paper 000, Figures 5 to 7, 12 and 13)."""


def results(experiment: FirstStream, _folder: Path, rows: Sequence[TrialRow]) -> Results:
    """Return a line for each pair of cells."""
    lines = gains(experiment, rows, JUDGED)
    return Results(
        lines,
        lambda: gain_page.summary(experiment, lines, JUDGED),
        lambda: panels.panels(lines, JUDGED),
        lambda: panels.maps(experiment, lines),
    )


MEASURE = Measure(FirstStream, results)
