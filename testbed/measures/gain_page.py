"""Summaries of gains and computed figures: our values, published values and expectations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reports.tables.columns import Column
from testbed.experiment.experiment import Experiment, Measure
from testbed.measures import rtt_lines, trend
from testbed.measures.gain import Gain
from testbed.measures.numeric import Numeric
from testbed.measures.page import UNAVAILABLE, Check, Page, between, number, page

_UNAVAILABLE = "unavailable"
_SAME_MS = 0.5
"""Gains nearer to zero are none."""
_MEASURES = {
    "first_stream": " from the client's first packet to the first STREAM frame of the server",
    "pto_first": " of RFC 9002's probe timeout after the client's first RTT sample, by its packets",
}


def gained(experiment: Experiment, found: Sequence[Gain]) -> Page:
    """Return the summary of pairs of cells."""
    here = [one for one in found if not one.outcomes.startswith(_UNAVAILABLE)]
    missing = sorted({one.client for one in found} - {one.client for one in here})
    measure = experiment.measure
    legend = (
        f"Medians in ms{_MEASURES[measure]}.\n"
        "Gain: WFC (wait for certificate) minus IACK (instant ACK).\n"
        "g: how much later the first ACK comes with WFC.\n"
    )
    checks = [
        Check(
            ", ".join(part for part in (f"{one.client} at {one.rtt_ms:g} ms", one.more) if part)
            + f", server {one.server}",
            one.expected or "",
            f"{number(getattr(one, gain_of(measure)), 1)} ms",
            one.verdict == "met",
            one.found,
        )
        for one in here
        if one.verdict is not None
    ]
    checks += trend.checks(
        experiment,
        [
            trend.Gained(one.client, one.server, one.rtt_ms, getattr(one, gain_of(measure)), one.more)
            for one in here
            if not one.partial_acks
        ],
    )
    early = sorted({f"{one.client} (server {one.server})" for one in here if one.partial_acks})
    further = [
        f"WFC is an instant ACK in effect with {', '.join(early)}:",
        "the ClientHello takes two datagrams, and the server acknowledges the first at once.",
    ]
    return page(
        experiment,
        _columns(here, measure),
        legend,
        checks,
        missing,
        len({one.client for one in found}),
        without=UNAVAILABLE,
        further=[
            *(further if early else ()),
            *(_crossings(here) if experiment.crossing else ()),
            *rtt_lines.sentences(experiment, here),
        ],
    )


def _between(own: Sequence[tuple[float, float]], place: int) -> float:
    """Return the interpolated RTT of zero gain, between a loss at `place` and the next RTT."""
    (below, loss), (above, gain) = own[place], own[place + 1]
    # A line through two losses meets zero beyond both.
    return below + (above - below) * -loss / (max(gain, 0) - loss)


def _crossings(found: Sequence[Gain]) -> list[str]:
    """Return below which RTT each pair of stacks loses time, in proportion between two, a sentence each."""
    made = []
    for client, server, more in dict.fromkeys((one.client, one.server, one.more) for one in found):
        own = [
            (one.rtt_ms, one.gain_ms)
            for one in sorted(found, key=lambda one: one.rtt_ms)
            if (one.client, one.server, one.more) == (client, server, more) and one.gain_ms is not None
        ]
        about = f"{client}, server {server}{f', {more}' if more else ''}"
        last = next((number for number in reversed(range(len(own))) if own[number][1] < -_SAME_MS), None)
        if not own:
            continue
        if last is None:
            made.append(f"{about}: an instant ACK costs no time at any of these RTTs.")
        elif last == len(own) - 1:
            # Before it the last place that gains, and the last before that which does not.
            until = next((number for number in reversed(range(last)) if own[number][1] > _SAME_MS), None)
            before = [number for number in range(until or 0) if own[number][1] < -_SAME_MS]
            but = f"; before that below one of some {_between(own, before[-1]):.0f} ms" if before else ""
            made.append(
                f"{about}: an instant ACK costs time at an RTT of {own[-1][0]:g} ms, too "
                f"({own[-1][1]:+.1f} ms){but}."
            )
        else:
            (below, loss), (above, gain) = own[last], own[last + 1]
            at = _between(own, last)
            gained = [rtt_ms for rtt_ms, gain in own[:last] if gain > _SAME_MS]
            since = f"between an RTT of {gained[-1]:g} ms and one" if gained else "below an RTT"
            made.append(
                f"{about}: an instant ACK costs time {since} of some {at:.0f} ms "
                f"({loss:+.1f} ms at {below:g}, {gain:+.1f} ms at {above:g})."
            )
    return made


def gain_of(measure: Measure) -> str:
    """Return the name of the gain that is judged."""
    return "pto_gain_ms" if measure == "pto_first" else "gain_ms"


def computed(figure: Numeric) -> Page:
    """Return the summary of a figure that is computed."""
    rows = figure.rows()
    columns = [Column(name, [_number(row[name]) for row in rows]) for name in rows[0]]
    checks = [
        Check(_named(one.where), f"{_named(one.values)}, within {one.within:g}", "", met)
        for one, met in figure.verdicts()
    ]
    return Page(figure.title, figure.source, columns, checks=checks, notes=figure.notes)


def _named(given: Mapping[str, float | str]) -> str:
    return ", ".join(f"{name} {_number(value)}" for name, value in given.items())


def _number(value: float | bool | str) -> str:
    if isinstance(value, str):
        return value
    return ("no", "yes")[value] if isinstance(value, bool) else f"{value:.4g}"


def _columns(found: Sequence[Gain], measure: Measure) -> list[Column]:
    numbers = (
        ("WFC\n", f"wfc_{measure}_ms"),
        ("IACK\n", f"iack_{measure}_ms"),
        ("gain\n", gain_of(measure)),
        ("RTT\nfirst", "rtt_first_ms"),
        ("g\n", "g_ms"),
        ("published\nWFC", "published_wfc_ms"),
        ("\nIACK", "published_iack_ms"),
        ("\ngain", "published_gain_ms"),
    )
    more = [one.more or "-" for one in found]
    ranges = [between(one.published_low_ms, one.published_high_ms) for one in found]
    return [
        Column("server\n", [one.server for one in found], right=False),
        Column("client\n", [one.client for one in found], right=False),
        Column("RTT\n", [f"{one.rtt_ms:g}" for one in found]),
        *([Column("cell\n", more, right=False)] if any(one.more for one in found) else []),
        *(Column(title, [number(getattr(one, name), 1) for one in found]) for title, name in numbers),
        *([Column("\nrange", ranges)] if any(one != "-" for one in ranges) else []),
        Column("trials done\nWFC", [f"{one.wfc_done}/{one.wfc_trials}" for one in found]),
        Column("\nIACK", [f"{one.iack_done}/{one.iack_trials}" for one in found]),
    ]
