"""How servers pace a long response: gaps and trains where it leaves them, drops and goodput (paper 001)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import mean, pstdev
from typing import Any

from reports.tables.columns import Column
from testbed.experiment.cell import Cell
from testbed.experiment.experiment import Experiment
from testbed.experiment.published import PacedResult
from testbed.measures.page import Check, Page, number, page
from testbed.trials.cell_rows import by_cell, column, done, median_of
from testbed.trials.trial_row import Row

_APART_POINTS = 70.0
"""The paper's server sends so many points more of its packets alone without GSO, and with it paced."""
_SAME_POINTS = 3.0
"""Between GSO off and paced GSO the paper's shares of packets alone differ by no more."""
_SAME_DROPS = 0.1
"""Between these two the paper's drops (160.80 ± 39.17 and 166.20 ± 41.00) differ by 3 %."""
_ALONE_PERCENT, _GAP_WITHIN = 99.0, 0.02
"""What picoquic with BBR, the paper's best, sends alone; how close its median gap is to the link's."""
_LARGEST_FRAME = 1514
_CONDITIONS = ("server", "congestion_control", "qdisc", "buffers")


@dataclass(frozen=True)
class Paced:
    """A cell. Over trials that were done; null without any.

    `dropped` and `goodput_mbit` are means, with the standard deviation of the population, as in the paper;
    all else is medians. `goodput_mbit` counts the time of the whole request. `below_percent` of gaps are
    0.1 ms or less; `alone_percent` of packets are in no train of shorter gaps, `le5_percent` in trains of
    five at most.
    """

    cell: str
    server: str
    server_version: str | None
    congestion_control: str | None
    qdisc: str
    gso: bool
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

    @property
    def buffers(self) -> str:
        """Return the server's use of GSO: `off`, `on` or `paced`."""
        return "paced" if self.gso_paced else "on" if self.gso else "off"

    def as_dict(self) -> dict[str, Any]:
        """Return the columns as a dictionary."""
        theirs = None if self.published is None else self.published.model_dump(exclude_none=True)
        return {**asdict(self), "published": theirs}


def cells(experiment: Experiment, rows: Sequence[Row]) -> list[Paced]:
    """Return a line for each cell that `rows` are of, in the experiment's order. InputError as `by_cell`."""
    return [_paced(experiment, cell, own) for cell, own in by_cell(experiment, rows)]


def summary(experiment: Experiment, found: Sequence[Paced]) -> Page:
    """Return the summary of cells."""
    here = [one for one in found if one.done]

    def published(value: Callable[[PacedResult], float | None], digits: int) -> list[str]:
        return [number(value(one.published) if one.published else None, digits) for one in here]

    columns = [
        Column("server\n", [one.server for one in here], right=False),
        Column("control\n", [one.congestion_control or "-" for one in here], right=False),
        Column("qdisc\n", [one.qdisc for one in here], right=False),
        Column("GSO\n", [one.buffers for one in here], right=False),
        Column("dropped\n", [_spread(one.dropped, one.dropped_sd, 0) for one in here]),
        Column("publ.\n", published(lambda one: one.dropped, 0)),
        Column("goodput\nMbit/s", [_spread(one.goodput_mbit, one.goodput_sd_mbit, 2) for one in here]),
        Column("publ.\n", published(lambda one: one.goodput_mbit, 2)),
        Column("<= 0.1 ms\n%", [number(one.below_percent, 1) for one in here]),
        Column("publ.\n", published(lambda one: one.below_percent, 1)),
        Column("alone\n%", [number(one.alone_percent, 1) for one in here]),
        Column("publ.\n", published(lambda one: one.alone_percent, 1)),
        Column("<= 5\n%", [number(one.le5_percent, 1) for one in here]),
        Column("publ.\n", published(lambda one: one.le5_percent, 1)),
        Column("gap p50\nus", [number(one.gap_p50_us, 0) for one in here]),
        Column("publ.\n", published(lambda one: one.gap_p50_us, 0)),
        Column("longest\ntrain", [number(one.longest_train, 0) for one in here]),
        Column("trials\ndone", [f"{one.done}/{one.trials}" for one in here]),
    ]
    legend = (
        "Dropped by the queue, and goodput: mean and standard deviation; else medians. Gaps and trains\n"
        "as the server sends them: a train's gaps are below 0.1 ms; alone: trains of one packet.\n"
    )
    missing = [one.cell for one in found if not one.done]
    checks = [*_checks(here), *_goodputs(here), *_of_picoquic(experiment, found)]
    further = [*_not_judged(found), *_without_cell(experiment)]
    return page(experiment, columns, legend, checks, missing, len(found), further=further)


def _checks(found: Sequence[Paced]) -> Iterator[Check]:
    """Yield the paper's observations, and whether they hold for cells that differ only in that condition."""
    for on in found:
        if on.buffers != "on":
            continue
        about = _about(on)
        for other, words in (("off", "without GSO"), ("paced", "with paced GSO")):
            one = _other(found, on, "buffers", other)
            if one is None or on.alone_percent is None or one.alone_percent is None:
                continue
            apart = one.alone_percent - on.alone_percent
            expected = f"{words} at least {_APART_POINTS:g} points more of the packets are alone"
            yield Check(about, expected, f"{apart:+.1f} points", apart >= _APART_POINTS)
            if on.dropped is not None and one.dropped is not None:
                drops = f"{on.dropped:.0f} and {one.dropped:.0f}"
                yield Check(
                    about, f"with GSO fewer packets are dropped than {words}", drops, on.dropped < one.dropped
                )
    for off in found:
        one = _other(found, off, "buffers", "paced") if off.buffers == "off" else None
        if one is None or one.alone_percent is None or off.alone_percent is None:
            continue
        apart = one.alone_percent - off.alone_percent
        expected = f"paced GSO leaves as many packets alone as none, within {_SAME_POINTS:g} points"
        yield Check(_about(off), expected, f"{apart:+.1f} points", abs(apart) <= _SAME_POINTS)
        if one.dropped is not None and off.dropped is not None:
            expected = f"paced GSO drops as many packets as none, within {100 * _SAME_DROPS:g} %"
            alike = abs(one.dropped - off.dropped) <= _SAME_DROPS * off.dropped
            yield Check(_about(off), expected, f"{one.dropped:.0f} and {off.dropped:.0f}", alike)
    for none in found:
        fq = _other(found, none, "qdisc", "fq")
        if none.qdisc != "none" or fq is None:
            continue
        gso = ", with GSO" if none.gso else ""
        about = f"{none.server}, {none.congestion_control or 'own control'}{gso}"
        if fq.dropped is not None and none.dropped is not None:
            drops = f"{fq.dropped:.0f} and {none.dropped:.0f}"
            yield Check(about, "fq drops more than no qdisc", drops, fq.dropped > none.dropped)


def _goodputs(found: Sequence[Paced]) -> Iterator[Check]:
    """Yield whether goodputs of a server have the published order."""
    servers: dict[str, list[Paced]] = {}
    for one in found:
        if one.goodput_mbit is not None and one.published and one.published.goodput_mbit is not None:
            servers.setdefault(one.server, []).append(one)
    for server, own in servers.items():
        if len(own) < 2:
            continue
        theirs = sorted(own, key=lambda one: -(one.published.goodput_mbit or 0) if one.published else 0)
        ours = sorted(own, key=lambda one: -(one.goodput_mbit or 0))
        order = " > ".join(_short(one) for one in theirs)
        values = ", ".join(f"{_short(one)} {one.goodput_mbit:.2f}" for one in ours)
        yield Check(server, f"goodput in the published order: {order}", f"{values} Mbit/s", ours == theirs)


def _of_picoquic(experiment: Experiment, found: Sequence[Paced]) -> Iterator[Check]:
    """Yield the paper's observation of picoquic with BBR; it is not met while picoquic is unavailable."""
    for one in found:
        if (one.server, one.congestion_control) != ("picoquic", "bbr"):
            continue
        cell = next(cell for cell in experiment.cells() if cell.name == one.cell)
        gap_us = _LARGEST_FRAME * 8 / cell.rate_mbit
        alone, gap = one.alone_percent, one.gap_p50_us
        near = gap is not None and abs(gap / gap_us - 1) <= _GAP_WITHIN
        none = "no trial was done, as picoquic cannot be had here"
        yield Check(
            "picoquic, bbr",
            f"{_ALONE_PERCENT:g} % of its packets are alone, with a median gap within "
            f"{100 * _GAP_WITHIN:g} % of {gap_us:.0f} us",
            f"{number(alone, 1)} %, {number(gap, 0)} us" if one.done else none,
            alone is not None and alone >= _ALONE_PERCENT and near,
        )


def _not_judged(found: Sequence[Paced]) -> Iterator[str]:
    """Yield the paper's observations of picoquic with other controllers, which get no verdict."""
    for one in found:
        if one.server == "picoquic" and one.congestion_control != "bbr":
            yield (
                f"Published, and not judged here: picoquic, {one.congestion_control}: its packets are alone, "
                "or in trains of 16 or 17."
            )


def _short(one: Paced) -> str:
    control = one.congestion_control or "own control"
    gso = {"off": "", "on": " GSO", "paced": " paced GSO"}[one.buffers]
    return f"{control} {one.qdisc}{gso}"


def _about(one: Paced) -> str:
    control = f", {one.congestion_control}" if one.congestion_control else ""
    return f"{one.server}{control}, qdisc {one.qdisc}"


def _other(found: Sequence[Paced], like: Paced, but: str, value: str) -> Paced | None:
    """Return the line equal to `like` except that condition `but` has `value`; None if there is none."""
    wanted = {**{name: getattr(like, name) for name in _CONDITIONS}, but: value}
    return next(
        (one for one in found if all(getattr(one, name) == wanted[name] for name in _CONDITIONS)), None
    )


def _paced(experiment: Experiment, cell: Cell, rows: Sequence[Row]) -> Paced:
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
        published=next((one for one in experiment.paced if _is_of(one, cell)), None),
    )


def _is_of(published: PacedResult, cell: Cell) -> bool:
    """Return whether a published result is of the conditions of a cell."""
    return published.changed is None and all(
        getattr(published, name) == getattr(cell, name)
        for name in ("server", "congestion_control", "qdisc", "gso", "gso_paced")
    )


def _without_cell(experiment: Experiment) -> Iterator[str]:
    """Yield a sentence for each published result without a cell of the same conditions."""
    cells = experiment.cells()
    for one in experiment.paced:
        if any(_is_of(one, cell) for cell in cells):
            continue
        buffers = "with paced GSO" if one.gso_paced else "with GSO" if one.gso else "without GSO"
        about = [one.server, one.congestion_control or "own control", f"qdisc {one.qdisc}", buffers]
        numbers = (
            ("{} dropped", one.dropped, 0),
            ("{} Mbit/s", one.goodput_mbit, 2),
            ("{} % of gaps up to 0.1 ms", one.below_percent, 1),
            ("{} % alone", one.alone_percent, 1),
            ("{} % in trains of five at most", one.le5_percent, 1),
        )
        given = [text.format(number(value, digits)) for text, value, digits in numbers if value is not None]
        changed = [f"changed ({one.changed})"] if one.changed else []
        yield f"Published, without a cell here: {', '.join(about + changed)}: {', '.join(given)}."


def _median(rows: Sequence[Row], name: str, times: float) -> float | None:
    found = median_of(rows, column(name))
    return None if found is None else found * times


def _spread(value: float | None, deviation: float | None, digits: int) -> str:
    return "-" if value is None or deviation is None else f"{value:.{digits}f} ± {deviation:.{digits}f}"
