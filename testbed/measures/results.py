"""The results of an experiment, as lines and as a summary, according to its `measure`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from testbed.experiment.experiment import Experiment
from testbed.measures import default_pto, gain, gain_page, own_log, own_pto, pacing, sender_log
from testbed.measures.acks import asymmetry, byte_delay, cells, checks, composition, survey
from testbed.measures.acks import shown as acks_shown
from testbed.measures.page import Line, Page
from testbed.trials.trial_row import Row


def measured(
    experiment: Experiment, folder: Path, rows: Sequence[Row]
) -> tuple[Sequence[Line], Callable[[], Page]]:
    """Return the lines of `rows`, and a function that makes their page.

    `folder`: the experiment's folder. InputError if the measure needs captures and they were not kept.
    """
    if experiment.measure == "default_pto":
        timers = default_pto.clients(experiment, folder, rows)
        return timers, lambda: default_pto.summary(experiment, timers)
    if experiment.measure == "acks":
        acked = cells.cells(experiment, rows)
        checked = checks.checks(experiment, rows)
        return acked, lambda: acks_shown.acked(experiment, acked, checked)
    if experiment.measure == "ack_asymmetry":
        paths = asymmetry.cells(experiment, folder, rows)
        return paths, lambda: acks_shown.asymmetric(experiment, paths)
    if experiment.measure == "ack_survey":
        clients = survey.clients(experiment, rows)
        return clients, lambda: acks_shown.surveyed(experiment, clients)
    if experiment.measure == "ack_bytes":
        composed = composition.cells(experiment, rows)
        return composed, lambda: composition.summary(experiment, composed)
    if experiment.measure == "rtt_updates":
        logs = own_log.clients(experiment, folder, rows)
        return logs, lambda: own_log.summary(experiment, logs)
    if experiment.measure == "pto_logged":
        timeouts = own_pto.pairs(experiment, folder, rows)
        return timeouts, lambda: own_pto.summary(experiment, timeouts)
    if experiment.measure == "byte_delay":
        trips = byte_delay.rounds(experiment, folder, rows)
        return trips, lambda: byte_delay.summary(experiment, trips)
    if experiment.measure == "launches":
        launches = sender_log.cells(experiment, folder, rows)
        return launches, lambda: sender_log.summary(experiment, launches)
    if experiment.measure == "pacing":
        servers = pacing.cells(experiment, rows)
        return servers, lambda: pacing.summary(experiment, servers)
    gains = gain.gains(experiment, rows)
    return gains, lambda: gain_page.gained(experiment, gains)
