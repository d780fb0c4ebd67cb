"""The gain of instant ACK in the client's first PTO, from its packets (paper 000, Figure 16)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from testbed.measures import Measure, Results
from testbed.measures.gains import gain_page, panels
from testbed.measures.gains.gain import Gains, Judged, gains
from testbed.trials.trial_row import TrialRow

JUDGED = Judged(
    time="pto_first",
    gain="pto_gain_ms",
    definition="of RFC 9002's probe timeout after the client's first RTT sample, by its packets",
    axis="First PTO [ms]",
    gain_axis="Gain in first PTO [ms]",
)


class PtoFirst(Gains):
    """The gain of instant ACK in the client's first PTO, from its packets (paper 000, Figure 16)."""


def results(experiment: PtoFirst, _folder: Path, rows: Sequence[TrialRow]) -> Results:
    """Return a line for each pair of cells."""
    lines = gains(experiment, rows, JUDGED)
    return Results(
        lines, lambda: gain_page.summary(experiment, lines, JUDGED), lambda: panels.panels(lines, JUDGED)
    )


MEASURE = Measure(PtoFirst, results)
