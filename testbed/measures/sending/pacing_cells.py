"""How servers pace a long response: the values of each cell, and the published values (paper 001)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, pstdev
from typing import Any

from pydantic import Field

from testbed.choices import Controller
from testbed.experiment.cell import Cell
from testbed.experiment.experiment import Experiment
from testbed.experiment.path_part import Qdisc
from testbed.experiment.published import OfPaper
from testbed.measures.sending import distributions
from testbed.measures.sending.distributions import SendingDistribution
from testbed.trials.cell_rows import by_cell, column, done, median_of
from testbed.trials.trial_row import TrialRow


class PacedResult(OfPaper):
    """A server's published pacing, for a cell with these conditions."""

    server: str = Field(description="The server.")
    also: tuple[str, ...] = Field(default=(), description="Further servers here to compare it with.")
    congestion_control: Controller | None = Field(default=None, description="Its congestion control.")
    qdisc: Qdisc = Field(default="none", description="Its queueing discipline.")
    gso: bool = Field(default=False, description="Whether it uses GSO.")
    gso_paced: bool = Field(default=False, description="Whether the datagrams of a buffer have launch times.")
    dropped: float | None = Field(default=None, description="Packets that the queue dropped.")
    goodput_mbit: float | None = Field(default=None, description="Goodput.")
    below_percent: float | None = Field(default=None, description="Share of gaps of 0.1 ms or less.")
    alone_percent: float | None = Field(default=None, description="Share of packets in no train.")
    le5_percent: float | None = Field(default=None, description="Share of packets in trains of up to five.")
    gap_p50_us: float | None = Field(default=None, description="Median gap.")


class Pacing(Experiment):
    """How servers pace a long response (paper 001, Tables 1 and 2, Figures 2 to 6)."""

    paced: tuple[PacedResult, ...] = Field(default=(), description="Published values.")


@dataclass(frozen=True)
class Paced:
    """A cell. Values over completed trials; null without any.

    `dropped` and `goodput_mbit` are means, with the standard deviation of the population, as in the paper;
    all others are medians. `goodput_mbit` counts the time of the whole request. `below_percent`: share of
    gaps of at most 0.1 ms; `alone_percent`: share of packets in no train; `le5_percent`: share of packets in
    trains of at most five.
    """

    cell: str
    server: str
    server_version: str | None
    congestion_control: str | None
    qdisc: str
    gso: bool
    gso_segments: int | None
    gso_paced: bool
    trials: int
    done: int
    dropped: float | None
    dropped_sd: float | None
    goodput_mbit: float | None
    goodput_sd_mbit: float | None
    below_percent: float | None
    alone_percent: float | None
    le5_percent: float | None
    gap_p50_us: float | None
    longest_train: float | None
    published: PacedResult | None
    distribution: SendingDistribution | None = None

    @property
    def buffers(self) -> str:
        """Return the server's use of GSO: `off`, `on` or `paced`, and the datagrams in a buffer if given."""
        use = "paced" if self.gso_paced else "on" if self.gso else "off"
        return use if self.gso_segments is None else f"{use}, {self.gso_segments}"

    def as_dict(self) -> dict[str, Any]:
        """Return the columns as a dictionary."""
        published = self.published and self.published.model_dump(exclude_none=True, exclude={"also"})
        columns = {**asdict(self), "published": published}
        del columns["distribution"]
        distribution = self.distribution
        return {
            **columns,
            "gaps_up_to_percent": None
            if distribution is None
            else [round(share, 3) for share in distribution.gaps],
            "trains_percent": None
            if distribution is None
            else [round(y, 3) for _, y in distribution.trains_drawn()],
        }


def cells(experiment: Pacing, folder: Path, rows: Sequence[TrialRow]) -> list[Paced]:
    """Return a line for each cell of `rows`, in the experiment's order. InputError as in `by_cell`.

    `folder`: the folder of the trials and their captures.
    """
    return [_paced(experiment, folder, cell, cell_rows) for cell, cell_rows in by_cell(experiment, rows)]


def _paced(experiment: Pacing, folder: Path, cell: Cell, rows: Sequence[TrialRow]) -> Paced:
    ended = done(rows)
    drops = [row["queue_drops"] for row in ended]
    goodputs = [8 * row["body_bytes"] / row["transfer_us"] for row in ended if row["transfer_us"]]
    return Paced(
        cell=cell.name,
        server=cell.server,
        server_version=ended[0]["server_version"] if ended else None,
        congestion_control=cell.congestion_control,
        qdisc=cell.qdisc,
        gso=cell.gso,
        gso_segments=cell.gso_segments,
        gso_paced=cell.gso_paced,
        trials=len(rows),
        done=len(ended),
        dropped=mean(drops) if drops else None,
        dropped_sd=pstdev(drops) if drops else None,
        goodput_mbit=mean(goodputs) if goodputs else None,
        goodput_sd_mbit=pstdev(goodputs) if goodputs else None,
        below_percent=_median(ended, "gaps_up_to_100us_share", 100),
        alone_percent=_median(ended, "share_in_trains_1", 100),
        le5_percent=_median(ended, "share_in_trains_le5", 100),
        gap_p50_us=_median(ended, "gap_p50_ns", 1e-3),
        longest_train=_median(ended, "longest_train", 1),
        published=next((result for result in experiment.paced if is_of(result, cell)), None),
        distribution=distributions.of_trials(folder, ended),
    )


def is_of(published: PacedResult, cell: Cell) -> bool:
    """Return whether a published result has a cell's conditions."""
    known = cell.gso_segments is None and cell.server in (published.server, *published.also)
    return known and all(
        getattr(published, name) == getattr(cell, name)
        for name in ("congestion_control", "qdisc", "gso", "gso_paced")
    )


def _median(rows: Sequence[TrialRow], name: str, times: float) -> float | None:
    median = median_of(rows, column(name))
    return None if median is None else median * times
