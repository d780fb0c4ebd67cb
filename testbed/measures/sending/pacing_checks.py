"""The paper's observations about pacing (paper 001), and whether they hold."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from testbed.measures.sending import quiche_checks
from testbed.measures.sending.pacing_cells import Paced, Pacing
from testbed.summary import Check, number

_APART_POINTS = 70.0
"""Minimum gain in the share of single packets of the paper's server without GSO, and with paced GSO."""
_SAME_POINTS = 3.0
"""Maximum difference of the paper's shares of single packets between GSO off and paced GSO."""
_SAME_DROPS = 0.1
"""The paper's drops without GSO and with paced GSO (160.80 ± 39.17 and 166.20 ± 41.00) differ by 3 %."""
_ALONE_PERCENT, _GAP_WITHIN = 99.0, 0.02
"""Share of single packets of picoquic with BBR, the paper's best; tolerance of the median gap."""
_IN_BURSTS_PERCENT, _BURSTS_WITHIN = 40.0, 10.0
"""For picoquic with CUBIC, "almost 40 %" of the packets are in trains of 16 or 17 (section 4.1)."""
_SHORT_TRAINS_PERCENT = 99.9
"""For TCP with CUBIC, "more than 99.9 %" of the packets are in trains of at most five (section 4.1)."""
_LARGEST_FRAME = 1514
_CONDITIONS = ("server", "congestion_control", "qdisc", "buffers")


def checks(experiment: Pacing, lines: Sequence[Paced]) -> list[Check]:
    """Return whether the paper's observations hold for the completed cells."""
    completed = [line for line in lines if line.done]
    return [
        *_checks(completed),
        *_goodputs(completed),
        *_of_picoquic(experiment, lines),
        *_of_tcp(completed),
        *quiche_checks.checks(completed),
    ]


def _checks(lines: Sequence[Paced]) -> Iterator[Check]:
    """Yield the paper's observations, and whether they hold for cells that differ only in that condition."""
    for on in lines:
        if on.buffers != "on":
            continue
        about = _long_name(on)
        for other, words in (("off", "without GSO"), ("paced", "with paced GSO")):
            counterpart = _counterpart(lines, on, "buffers", other)
            if counterpart is None or on.alone_percent is None or counterpart.alone_percent is None:
                continue
            difference = counterpart.alone_percent - on.alone_percent
            expected = f"{words} at least {_APART_POINTS:g} points more of the packets are alone"
            yield Check(about, expected, f"{difference:+.1f} points", difference >= _APART_POINTS)
            if on.dropped is not None and counterpart.dropped is not None:
                drops = f"{on.dropped:.0f} and {counterpart.dropped:.0f}"
                yield Check(
                    about,
                    f"with GSO fewer packets are dropped than {words}",
                    drops,
                    on.dropped < counterpart.dropped,
                )
    for off in lines:
        counterpart = _counterpart(lines, off, "buffers", "paced") if off.buffers == "off" else None
        if counterpart is None or counterpart.alone_percent is None or off.alone_percent is None:
            continue
        difference = counterpart.alone_percent - off.alone_percent
        expected = f"paced GSO leaves as many packets alone as without GSO, within {_SAME_POINTS:g} points"
        yield Check(_long_name(off), expected, f"{difference:+.1f} points", abs(difference) <= _SAME_POINTS)
        if counterpart.dropped is not None and off.dropped is not None:
            expected = f"paced GSO drops as many packets as without GSO, within {100 * _SAME_DROPS:g} %"
            same_drops = abs(counterpart.dropped - off.dropped) <= _SAME_DROPS * off.dropped
            yield Check(
                _long_name(off), expected, f"{counterpart.dropped:.0f} and {off.dropped:.0f}", same_drops
            )
    for none in lines:
        fq = _counterpart(lines, none, "qdisc", "fq")
        # The paper measures only quiche with fq. Without rollbacks, fq saves drops (quiche_checks).
        if none.server != "quiche" or none.qdisc != "none" or fq is None:
            continue
        gso = ", with GSO" if none.gso else ""
        about = f"{none.server}, {none.congestion_control or 'own control'}{gso}"
        if fq.dropped is not None and none.dropped is not None:
            drops = f"{fq.dropped:.0f} and {none.dropped:.0f}"
            yield Check(about, "fq drops more than no qdisc", drops, fq.dropped > none.dropped)


def _goodputs(lines: Sequence[Paced]) -> Iterator[Check]:
    """Yield whether a server's goodputs have the published order."""
    servers: dict[str, list[Paced]] = {}
    for line in lines:
        if line.goodput_mbit is not None and line.published and line.published.goodput_mbit is not None:
            servers.setdefault(line.server, []).append(line)
    for server, group in servers.items():
        if len(group) < 2:
            continue
        published_order = sorted(
            group, key=lambda line: -(line.published.goodput_mbit or 0) if line.published else 0
        )
        our_order = sorted(group, key=lambda line: -(line.goodput_mbit or 0))
        order = " > ".join(_short_name(line) for line in published_order)
        values = ", ".join(f"{_short_name(line)} {line.goodput_mbit:.2f}" for line in our_order)
        yield Check(
            server,
            f"goodput in the published order: {order}",
            f"{values} Mbit/s",
            all(_is_ordered(faster, slower) for faster, slower in itertools.pairwise(published_order)),
        )


def _is_ordered(faster: Paced, slower: Paced) -> bool:
    """Return whether two cells are ordered as published. Equal published values have no order."""
    same = (
        faster.published
        and slower.published
        and faster.published.goodput_mbit == slower.published.goodput_mbit
    )
    return bool(same) or (faster.goodput_mbit or 0) > (slower.goodput_mbit or 0)


def _of_picoquic(experiment: Pacing, lines: Sequence[Paced]) -> Iterator[Check]:
    """Yield the paper's observations of picoquic, for cells without GSO, where the pacer makes the trains."""
    cells = {cell.name: cell for cell in experiment.cells()}
    for line in lines:
        if line.server != "picoquic" or line.gso:
            continue
        if line.congestion_control == "cubic" and line.distribution is not None:
            share = line.distribution.within(16, 17)
            yield Check(
                "picoquic, cubic",
                f"{_IN_BURSTS_PERCENT:g} % of its packets are in trains of 16 or 17, "
                f"within {_BURSTS_WITHIN:g} points",
                f"{number(share, 1)} %",
                abs(share - _IN_BURSTS_PERCENT) <= _BURSTS_WITHIN,
            )
        if line.congestion_control != "bbr" or not line.done:
            continue
        gap_us = _LARGEST_FRAME * 8 / cells[line.cell].rate_mbit
        alone, gap = line.alone_percent, line.gap_p50_us
        near = gap is not None and abs(gap / gap_us - 1) <= _GAP_WITHIN
        yield Check(
            "picoquic, bbr",
            f"{_ALONE_PERCENT:g} % of its packets are alone, with a median gap within "
            f"{100 * _GAP_WITHIN:g} % of {gap_us:.0f} us",
            f"{number(alone, 1)} %, {number(gap, 0)} us",
            alone is not None and alone >= _ALONE_PERCENT and near,
        )


def _of_tcp(lines: Sequence[Paced]) -> Iterator[Check]:
    """Yield the paper's observations of TCP with CUBIC and no qdisc (Table 1, section 4.1)."""
    baseline = [
        line
        for line in lines
        if (line.congestion_control, line.qdisc) == ("cubic", "none") and line.published is not None
    ]
    tcp = next((line for line in baseline if line.server == "tcp-nginx"), None)
    if tcp is None:
        return
    if tcp.le5_percent is not None:
        yield Check(
            "tcp-nginx, cubic",
            f"{_SHORT_TRAINS_PERCENT:g} % of its packets are in trains of at most five",
            f"{number(tcp.le5_percent, 2)} %",
            tcp.le5_percent >= _SHORT_TRAINS_PERCENT,
        )
    quic = {line.server: line.dropped for line in baseline if line is not tcp and line.dropped is not None}
    if quic and tcp.dropped is not None:
        values = ", ".join(f"{server} {dropped:.0f}" for server, dropped in quic.items())
        yield Check(
            "tcp-nginx, cubic",
            "fewer packets are dropped than of each QUIC server",
            f"{tcp.dropped:.0f}; {values}",
            tcp.dropped < min(quic.values()),
        )


def _short_name(line: Paced) -> str:
    control = line.congestion_control or "own control"
    gso = {"off": "", "on": " GSO", "paced": " paced GSO"}[line.buffers]
    return f"{control} {line.qdisc}{gso}"


def _long_name(line: Paced) -> str:
    control = f", {line.congestion_control}" if line.congestion_control else ""
    return f"{line.server}{control}, qdisc {line.qdisc}"


def _counterpart(lines: Sequence[Paced], like: Paced, but: str, value: str) -> Paced | None:
    """Return the line equal to `like` except that condition `but` has `value`; `None` without one."""
    conditions = {**{name: getattr(like, name) for name in _CONDITIONS}, but: value}
    return next(
        (line for line in lines if all(getattr(line, name) == conditions[name] for name in _CONDITIONS)), None
    )
