"""The figure and the maps of gains."""

from __future__ import annotations

from collections.abc import Sequence

from reports.numbers.compared import ComparisonPanel, ComparisonSeries, series
from reports.numbers.gridded import Map, Maps
from testbed.measures.gains.gain import SAME_MS, Gain, Gains, Judged


def panels(lines: Sequence[Gain], judged: Judged) -> list[ComparisonPanel]:
    """Return a panel for each server: times of both answers, or the gain over several RTTs.

    With several RTTs, pairs of the same stacks that differ in other conditions get separate panels.
    """
    many = len({line.rtt_ms for line in lines}) > 1
    figure = []
    for server, more in dict.fromkeys((line.server, line.more if many else "") for line in lines):
        group = [line for line in lines if line.server == server and (not many or line.more == more)]
        if not any(line.wfc_done or line.iack_done for line in group):
            continue
        title = f"server {server}" + (f", {more}" if more else "")
        if many:
            curves = _over_rtt([line for line in group if line.wfc_done and line.iack_done], judged.gain)
            figure.append(ComparisonPanel(title, judged.gain_axis, curves, "RTT [ms]"))
            continue
        dots: list[ComparisonSeries] = []
        for answer, name in (("wfc", "WFC"), ("iack", "IACK")):
            ours, theirs = f"{answer}_{judged.time}_ms", f"published_{answer}_ms"
            dots += series(name, [(_pair(line), getattr(line, ours)) for line in group])
            dots += series(name, [(_pair(line), getattr(line, theirs)) for line in group], published=True)
        figure.append(ComparisonPanel(title, judged.axis, tuple(dots)))
    return figure


def maps(experiment: Gains, lines: Sequence[Gain]) -> Maps | None:
    """Return maps of the better answer over RTT and certificate delay, one for each pair of stacks.

    `None` unless the experiment varies exactly these two. Skips pairs in which WFC has the effect of an
    instant ACK.
    """
    known = [line for line in lines if line.gain_ms is not None and not line.partial_acks]
    varied = experiment.vary.keys() - {"client", "server", "answering"}
    if not known or varied != {"rtt_ms", "certificate_delay_ms"}:
        return None
    values: dict[str, dict[tuple[float, float], float]] = {}
    servers = {line.server for line in known}
    for line in sorted(known, key=lambda line: (line.client, line.server)):
        title = line.client if len(servers) == 1 else f"{line.client}, {line.server}"
        place, own_values = (line.rtt_ms, line.certificate_delay_ms), values.setdefault(title, {})
        if place in own_values:
            return None  # an additional cell has other conditions
        own_values[place] = line.gain_ms or 0
    names = ("IACK is better", "WFC is better", f"neither, within {SAME_MS:g} ms")
    maps_of_pairs = tuple(Map(title, of, SAME_MS) for title, of in values.items())
    return Maps("RTT [ms]", "Delay of the certificate [ms]", names, maps_of_pairs)


def _pair(line: Gain) -> str:
    return f"{line.client}, {line.more}" if line.more else line.client


def _over_rtt(lines: Sequence[Gain], name: str) -> tuple[ComparisonSeries, ...]:
    curves: list[ComparisonSeries] = []
    for client in sorted({line.client for line in lines}):
        group = [line for line in lines if line.client == client]
        curves += series(client, [(line.rtt_ms, getattr(line, name)) for line in group])
        curves += series(client, [(line.rtt_ms, line.published_gain_ms) for line in group], published=True)
    return tuple(curves)
