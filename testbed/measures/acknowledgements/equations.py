"""Equations 1 to 5 of paper 003 (section 5.4) for a cell's trials, with α measured and with the paper's α."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from testbed.experiment.cell import Cell
from testbed.experiment.published import OfPaper
from testbed.measures.acknowledgements import model, traffic
from testbed.measures.acknowledgements.traffic import Traffic
from testbed.trials.cell_rows import in_percent, median_of
from testbed.trials.trial_row import TrialRow


class DefaultRatio(OfPaper):
    """The published ratio of a client that takes no request."""

    client: str = Field(description="The client.")
    ratio: int = Field(description="Packets for each ACK.")
    ratio_later: int | None = Field(default=None, description="Packets for each later ACK.")
    ratio_later_after: int | None = Field(default=None, description="Packets with the first ratio.")
    client_percent: float | None = Field(
        default=None, description="Bytes of the client in percent of the server's."
    )


@dataclass(frozen=True)
class Equations:
    """The equations' values for a cell: medians over trials with a capture.

    `alpha`: the share of a ratio's packets in an ACK by the timer; null if no ACK is by the timer. `gaps`:
    the paper's L (`Traffic.gaps`). `acks`: the client's ACKs by equations 3 to 5 with the measured alpha.
    `client_percent`: its IP bytes per 100 bytes of the server by equations 1 to 5 with the measured alpha;
    `half_percent`: the same with the paper's α, 0.5.
    """

    alpha: float | None
    gaps: float | None
    acks: float | None
    client_percent: float | None
    half_percent: float | None


def of_cell(
    folder: Path, cell: Cell, rows: Sequence[TrialRow], default: DefaultRatio | None
) -> Equations | None:
    """Return the equations for a cell's completed trials in the experiment's `folder`.

    `default`: the client's ratio if the server requests none. `None` without a ratio or without captures.
    """
    ratio, later = _ratios(cell, default)
    if ratio is None:
        return None
    read = traffic.of_trials(folder, cell, rows)
    if not read:
        return None
    extra = traffic.EXTRA[cell.ack_reordering or "at_once"]
    # An ACK by the timer late in the transfer acknowledges a part of the later ratio.
    timed = ratio if later is None else later[1]

    def acks(of: Traffic) -> float:
        alpha = of.alpha(timed) or 0.0
        return model.acks(of.packets, ratio, of.by_timer, later, alpha=alpha) + extra * of.gaps

    def share(alpha: Callable[[Traffic], float | None]) -> float | None:
        return median_of(
            read,
            lambda pair: in_percent(
                pair[1].client_bytes(ratio, later, extra, alpha(pair[1])), pair[0]["ip_bytes_server"]
            ),
        )

    return Equations(
        alpha=median_of(read, lambda pair: pair[1].alpha(timed)),
        gaps=median_of(read, lambda pair: pair[1].gaps),
        acks=median_of(read, lambda pair: acks(pair[1])),
        client_percent=share(lambda of: of.alpha(timed)),
        half_percent=share(lambda _: model.BY_TIMER),
    )


def _ratios(cell: Cell, default: DefaultRatio | None) -> tuple[int | None, tuple[int, int] | None]:
    """Return the ratio of a cell, and the packets with it and the later ratio if there are two."""
    if cell.ack_ratio is not None:
        ratio, later, after = cell.ack_ratio, cell.ack_ratio_later, cell.ack_ratio_later_after
    elif default is not None:
        ratio, later, after = default.ratio, default.ratio_later, default.ratio_later_after
    else:
        return None, None
    return ratio, None if later is None or after is None else (after, later)
