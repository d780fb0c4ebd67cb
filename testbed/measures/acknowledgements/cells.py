"""Medians of each cell of an experiment about acknowledgements, with the paper's and the model's values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from reports.numbers import spread
from reports.numbers.spread import Spread
from testbed.choices import Reordering
from testbed.experiment.cell import Cell, Named
from testbed.experiment.experiment import Experiment
from testbed.experiment.published import OfPaper
from testbed.measures.acknowledgements import equations, model
from testbed.measures.acknowledgements.equations import DefaultRatio, Equations
from testbed.trials.cell_rows import by_cell, column, done, median_of, percent
from testbed.trials.trial_row import TrialRow

_FURTHER: tuple[Named, ...] = ("drop_to_client", "drop_to_server", "reorder_to_client", "reorder_to_server")
_UNLIKE = (
    *("delay_to_server_ms", "netem_loss_to_client_percent", "netem_loss_to_server_percent"),
    *("reorder_percent", "reorder_ms", *_FURTHER),
)
"""Conditions that a scenario may have, but no experiment of the paper."""


class Transfer(OfPaper):
    """A transfer's published time and acknowledgements, for a cell with these conditions."""

    rtt_ms: float = Field(description="RTT of the cell.")
    ack_ratio: int = Field(description="Requested ratio.")
    ack_delay_ms: float = Field(default=25, description="Requested delay.")
    loss_percent: float = Field(default=0, description="Random loss.")
    ack_reordering: Reordering = Field(
        default="at_once", description="Requested response to reordering, where the cell has loss."
    )
    transfer_s: float | None = Field(default=None, description="Time of the transfer.")
    timer_percent: float | None = Field(default=None, description="Share of the ACKs that the timer sends.")
    client_percent: float | None = Field(
        default=None, description="Bytes of the client in percent of the server's."
    )


class Acks(Experiment):
    """Acknowledgements of transfers, by the requested ratio (paper 003, Tables 4 and 5)."""

    transfer: tuple[Transfer, ...] = Field(default=(), description="Published values.")
    default: tuple[DefaultRatio, ...] = Field(
        default=(), description="Published ratios of clients that take no request."
    )


@dataclass(frozen=True)
class Acked:
    """A cell. Numbers are medians over completed trials; null without any.

    `more`: losses other than `loss_percent`, reordering, and a delay towards the server that is not half the
    RTT, worded as in cell names; empty without. `clean`: only queues drop datagrams, and the link delays no
    datagram longer than others. `acks`: the client's packets with an ACK frame; `packets`: the ack-eliciting
    packets that it received. `model_acks`: the ACKs by equation 3, from `packets` and the ACKs that the timer
    sent, or by equation 4 if the server requests a second ratio. `client_percent`: the client's IP bytes per
    100 bytes of the server. Shares of ACKs are in percent of the ACKs that acknowledge a packet for the first
    time. `equations`: null without captures. `transfer_spread_ms` and `client_spread_percent`: the
    distribution over the completed trials.
    """

    cell: str
    client: str
    client_version: str | None
    server: str
    rtt_ms: float
    loss_percent: float
    more: str
    clean: bool
    ack_ratio: int | None
    ack_ratio_later: int | None
    ack_ratio_later_after: int | None
    ack_delay_ms: float | None
    ack_reordering: str | None
    trials: int
    done: int
    outcomes: str
    transfer_ms: float | None
    packets: float | None
    acks: float | None
    model_acks: float | None
    eliciting_per_ack: float | None
    timer_percent: float | None
    reordering_percent: float | None
    bundled_percent: float | None
    ack_bytes: float | None
    client_percent: float | None
    published_transfer_ms: float | None
    published_timer_percent: float | None
    published_client_percent: float | None
    equations: Equations | None
    transfer_spread_ms: Spread | None
    client_spread_percent: Spread | None

    @property
    def ratios(self) -> str:
        """Return the requested ratio, or both with the packets of the first; `-` without a request."""
        if self.ack_ratio is None:
            return "-"
        if self.ack_ratio_later is None:
            return f"{self.ack_ratio}"
        return f"{self.ack_ratio}, {self.ack_ratio_later} after {self.ack_ratio_later_after}"

    @property
    def without_ratio(self) -> str:
        """Return the cell's name without the ratio: cells with equal results differ only in the ratio."""
        return self.cell.replace(f"-ar{self.ack_ratio}", "", 1)

    def as_dict(self) -> dict[str, Any]:
        """Return the columns as a dictionary."""
        return asdict(self)


def cells(experiment: Acks, rows: Sequence[TrialRow], folder: Path | None = None) -> list[Acked]:
    """Return a line for each cell of `rows`, in the experiment's order. InputError as in `by_cell`.

    `folder`: the experiment's, with the captures; `None` leaves out the equations, which need them.
    """
    return [_acked(experiment, cell, cell_rows, folder) for cell, cell_rows in by_cell(experiment, rows)]


def more(cell: Cell) -> str:
    """Return the words of `Acked.more` for a cell."""
    given = {name: getattr(cell, name) for name in ("client", "server", "answering", "rtt_ms", *_UNLIKE)}
    name = Cell.model_validate({**given, "named": _FURTHER}).name
    return name.partition(f"-{cell.answering}-{cell.rtt_ms:g}ms")[2].removeprefix("-")


def _is_clean(cell: Cell) -> bool:
    netem = cell.netem_loss_to_client_percent or cell.netem_loss_to_server_percent
    dropped = cell.drop_to_client or cell.drop_to_server or cell.drop_second_flight
    return not (cell.loss_percent or netem or dropped or cell.reorders)


def _acked(experiment: Acks, cell: Cell, rows: Sequence[TrialRow], folder: Path | None) -> Acked:
    ended = done(rows)
    published = next((transfer for transfer in experiment.transfer if _is_of(transfer, cell)), None)
    default = next((given for given in experiment.default if given.client == cell.client), None)
    own = default if cell.ack_ratio is None else None
    share = published or own
    client_percent = percent("ip_bytes_client", "ip_bytes_server")
    return Acked(
        cell=cell.name,
        client=cell.client,
        client_version=ended[0]["client_version"] if ended else None,
        server=cell.server,
        rtt_ms=cell.rtt_ms,
        loss_percent=cell.loss_percent,
        more=more(cell),
        clean=_is_clean(cell),
        ack_ratio=cell.ack_ratio,
        ack_ratio_later=cell.ack_ratio_later,
        ack_ratio_later_after=cell.ack_ratio_later_after,
        ack_delay_ms=cell.ack_delay_ms,
        ack_reordering=cell.ack_reordering,
        trials=len(rows),
        done=len(ended),
        outcomes=", ".join(
            f"{name} {count}" for name, count in sorted(Counter(row["outcome"] for row in rows).items())
        ),
        transfer_ms=median_of(ended, lambda row: row["transfer_us"] / 1000),
        packets=median_of(ended, column("peer_eliciting")),
        acks=median_of(ended, column("ack_packets")),
        model_acks=median_of(ended, lambda row: _model(cell, row)),
        eliciting_per_ack=median_of(ended, column("eliciting_per_ack")),
        timer_percent=median_of(ended, lambda row: _share(row, "acks_by_timer")),
        reordering_percent=median_of(ended, lambda row: _share(row, "acks_by_reordering")),
        bundled_percent=median_of(ended, percent("bundled_packets", "ack_packets")),
        ack_bytes=median_of(ended, column("ack_only_ip_bytes_p50")),
        client_percent=median_of(ended, client_percent),
        published_transfer_ms=None
        if published is None or published.transfer_s is None
        else 1000 * published.transfer_s,
        published_timer_percent=published.timer_percent if published else None,
        published_client_percent=share.client_percent if share else None,
        equations=None if folder is None else equations.of_cell(folder, cell, ended, own),
        transfer_spread_ms=spread.of(row["transfer_us"] / 1000 for row in ended),
        client_spread_percent=spread.of(map(client_percent, ended)),
    )


def _model(cell: Cell, row: TrialRow) -> float | None:
    if cell.ack_ratio is None or row["peer_eliciting"] is None or row["acks_by_timer"] is None:
        return None
    later = None
    if cell.ack_ratio_later is not None and cell.ack_ratio_later_after is not None:
        later = (cell.ack_ratio_later_after, cell.ack_ratio_later)
    return model.acks(row["peer_eliciting"], cell.ack_ratio, row["acks_by_timer"], later)


def _share(row: TrialRow, name: str) -> float | None:
    causes = [row[cause] for cause in ("acks_by_count", "acks_by_timer", "acks_by_reordering")]
    if None in causes or not sum(causes):
        return None
    return float(100 * row[name] / sum(causes))


def _is_of(published: Transfer, cell: Cell) -> bool:
    return (
        (published.rtt_ms, published.ack_ratio, published.loss_percent, published.ack_delay_ms)
        == (cell.rtt_ms, cell.ack_ratio, cell.loss_percent, cell.ack_delay_ms)
        and (not cell.loss_percent or published.ack_reordering == cell.ack_reordering)
        and cell.ack_ratio_later is None
        and not more(cell)
    )
