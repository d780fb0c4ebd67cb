"""Policies of acknowledgements, compared with a ratio of 2 on the same path (paper 003, section 6)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from testbed.experiment.cell import Cell
from testbed.measures.acknowledgements.cells import Acked, Acks, cells
from testbed.measures.acknowledgements.checks import equations
from testbed.measures.acknowledgements.paired import SIGNIFICANT, PairedDifference, compare
from testbed.summary import Check
from testbed.trials.cell_rows import by_cell, column, done, median_of
from testbed.trials.trial_row import TrialRow

_LEAST = 2
"""The ratio to compare with."""
_EXTRA_WITHIN = 0.25
"""Section 5.5: 40 more ACKs than with a ratio of 10, because of the first 100 packets."""
_OF_POLICY = {"ack_ratio", "ack_ratio_later", "ack_ratio_later_after", "ack_delay_ms"}


class AckPolicies(Acks):
    """Two ratios and a delay of RTT/4, compared with a single ratio (paper 003, section 6)."""


@dataclass(frozen=True)
class Policy:
    """A cell and its differences from the cell with ratio 2 on the same path. Medians; null without trials.

    `first100`, `after100`: ack-eliciting packets per ACK, up to the 100th packet and later. `later_ms`: the
    median difference of the transfer times in `pairs` of repetitions, which lost the same datagrams; `p`: the
    probability of the sign test, null without loss. `fewer`: the ACKs with ratio 2, divided by the ACKs of
    this cell. The other columns are as in Acked.
    """

    cell: str
    client: str
    server: str
    rtt_ms: float
    loss_percent: float
    ratios: str
    ack_delay_ms: float | None
    trials: int
    done: int
    transfer_ms: float | None
    pairs: int
    later_ms: float | None
    p: float | None
    packets: float | None
    acks: float | None
    model_acks: float | None
    fewer: float | None
    first100: float | None
    after100: float | None
    timer_percent: float | None
    client_percent: float | None

    def as_dict(self) -> dict[str, Any]:
        """Return the columns as a dictionary."""
        return asdict(self)

    @property
    def words(self) -> str:
        """Return the policy in words."""
        return f"ratio {self.ratios}" + ("" if self.ack_delay_ms is None else f", {self.ack_delay_ms:g} ms")


@dataclass(frozen=True)
class _Measured:
    cell: Cell
    acked: Acked
    rows: Sequence[TrialRow]
    path: Mapping[str, Any]
    """The conditions that compared cells share: all but the ratios and the ACK delay."""

    def is_fixed(self, ratio: int | None) -> bool:
        """Return whether its server requests only this ratio."""
        return self.cell.ack_ratio == ratio and self.cell.ack_ratio_later is None


def policies(experiment: AckPolicies, rows: Sequence[TrialRow]) -> list[Policy]:
    """Return a line for each cell of `rows`, in the experiment's order. InputError as in `by_cell`."""
    measured = _measured(experiment, rows)
    return [_policy(measurement, _other(measurement, measured, _LEAST)) for measurement in measured]


def _measured(experiment: AckPolicies, rows: Sequence[TrialRow]) -> list[_Measured]:
    pairs = zip(by_cell(experiment, rows), cells(experiment, rows), strict=True)
    return [
        _Measured(cell, acked, cell_rows, cell.model_dump(exclude=_OF_POLICY))
        for (cell, cell_rows), acked in pairs
    ]


def _other(measurement: _Measured, measured: Sequence[_Measured], ratio: int | None) -> _Measured | None:
    """Return the first cell on the same path with only this ratio; `None` without a completed trial."""
    return next(iter(_others(measurement, measured, ratio)), None)


def _others(measurement: _Measured, measured: Sequence[_Measured], ratio: int | None) -> list[_Measured]:
    same = (other for other in measured if other.path == measurement.path and other.is_fixed(ratio))
    return [other for other in same if other.acked.done]


def _compared(measurement: _Measured, other: _Measured | None) -> PairedDifference | None:
    return None if other is None or other is measurement else compare(other.rows, measurement.rows)


def _policy(measurement: _Measured, least: _Measured | None) -> Policy:
    found, acked, ended = _compared(measurement, least), measurement.acked, done(measurement.rows)
    return Policy(
        cell=acked.cell,
        client=acked.client,
        server=acked.server,
        rtt_ms=acked.rtt_ms,
        loss_percent=acked.loss_percent,
        ratios=acked.ratios,
        ack_delay_ms=acked.ack_delay_ms,
        trials=acked.trials,
        done=acked.done,
        transfer_ms=acked.transfer_ms,
        pairs=found.pairs if found else 0,
        later_ms=found.median_ms if found else None,
        p=found.p if found and not acked.clean else None,
        packets=acked.packets,
        acks=acked.acks,
        model_acks=acked.model_acks if acked.clean else None,
        fewer=least.acked.acks / acked.acks if found and least and least.acked.acks and acked.acks else None,
        first100=median_of(ended, column("eliciting_per_ack_first100")),
        after100=median_of(ended, column("eliciting_per_ack_after100")),
        timer_percent=acked.timer_percent,
        client_percent=acked.client_percent,
    )


def checks(experiment: AckPolicies, rows: Sequence[TrialRow]) -> list[Check]:
    """Return the checks of all cells with two ratios."""
    measured = _measured(experiment, rows)
    twofold = [
        measurement
        for measurement in measured
        if measurement.cell.ack_ratio_later is not None and measurement.acked.done
    ]
    return [
        *equations([measurement.acked for measurement in twofold if measurement.acked.clean]),
        *(check for measurement in twofold for check in _of(measurement, measured)),
    ]


def _of(measurement: _Measured, measured: Sequence[_Measured]) -> Iterator[Check]:
    acked, cell = measurement.acked, measurement.cell
    about = f"RTT {acked.rtt_ms:g} ms, loss {acked.loss_percent:g} %" + (
        f", {acked.more}" if acked.more else ""
    )
    least, later = _other(measurement, measured, _LEAST), _others(measurement, measured, cell.ack_ratio_later)
    alike = next((other for other in later if other.acked.ack_delay_ms == acked.ack_delay_ms), None)
    if least is not None and least.acked.acks is not None and acked.acks is not None:
        yield Check(
            about,
            f"it sends fewer ACKs than a ratio of {_LEAST}",
            f"{acked.acks:.0f} and {least.acked.acks:.0f}",
            acked.acks < least.acked.acks,
        )
    if alike is not None and acked.clean and alike.acked.acks is not None and acked.acks is not None:
        after, first, ratio = cell.ack_ratio_later_after or 0, cell.ack_ratio or 1, cell.ack_ratio_later or 1
        expected, extra = after / first - after / ratio, acked.acks - alike.acked.acks
        yield Check(
            about,
            f"it sends {expected:.0f} ACKs more than a ratio of {ratio} with the same delay, within "
            f"{100 * _EXTRA_WITHIN:g} %",
            f"{extra:.0f} more",
            abs(extra - expected) <= _EXTRA_WITHIN * abs(expected),
        )
    for other in (least, *later):
        found = _compared(measurement, other)
        if other is None or found is None:
            continue
        delay = "" if other.acked.ack_delay_ms is None else f" and {other.acked.ack_delay_ms:g} ms"
        than = f"than with a ratio of {other.acked.ratios}{delay}"
        if acked.clean:
            yield Check(
                about,
                f"the transfer takes at most one RTT longer {than}",
                f"{found.median_ms:+.1f} ms",
                found.median_ms <= acked.rtt_ms,
            )
        elif found.is_decisive:
            yield Check(
                about,
                f"the transfer takes no longer {than} (sign test, {SIGNIFICANT:g})",
                f"{found.median_ms:+.0f} ms (p {found.p:.3f}, {found.pairs} pairs)",
                found.direction <= 0,
            )
