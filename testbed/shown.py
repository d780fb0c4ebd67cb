"""An experiment's results for people: ours beside the published ones, and what was expected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reports.tables.columns import Column, drawn
from testbed.experiment import Experiment, Measure
from testbed.gain import Gain
from testbed.numeric import Numeric

_UNAVAILABLE = "unavailable"
_MEASURES = {
    "first_stream": " from the client's first packet to the first STREAM frame of the server",
    "pto_first": " of RFC 9002's probe timeout after the client's first RTT sample, by its packets",
}


def text(experiment: Experiment, found: Sequence[Gain], *, terminal: bool) -> str:
    """Return title, table and notes; `terminal`: with colours and lines."""
    here = [one for one in found if not one.outcomes.startswith(_UNAVAILABLE)]
    missing = sorted({one.client for one in found} - {one.client for one in here})
    out = f"{experiment.title}.\n"
    if experiment.source:
        out += f"Published: {experiment.source}.\n"
    if here:
        out += f"\n{drawn(_columns(here, experiment.measure), terminal=terminal)}\n"
        out += (
            f"Medians in ms{_MEASURES[experiment.measure]}.\n"
            "Gain: WFC (wait for certificate) minus IACK (instant ACK).\n"
            "g: how much later the first ACK comes with WFC.\n"
        )
    for one in here:
        if one.verdict is not None:
            out += f"{one.client} at {one.rtt_ms:g} ms, server {one.server}: {one.verdict}: {one.expected}.\n"
            if one.found is not None:
                out += f"    The captures show: {one.found}.\n"
    early = sorted({f"{one.client} (server {one.server})" for one in here if one.partial_acks})
    if early:
        out += (
            f"WFC is an instant ACK in effect with {', '.join(early)}:\n"
            "the ClientHello takes two datagrams, and the server acknowledges the first at once.\n"
        )
    if missing:
        clients = len({one.client for one in found})
        out += f"Unavailable as clients here, {len(missing)} of {clients}: {', '.join(missing)}.\n"
    return out


def computed(figure: Numeric, *, terminal: bool) -> str:
    """Return title, table and verdicts of a figure that is computed; `terminal`: with colours and lines."""
    rows = figure.rows()
    columns = [Column(name, [_number(row[name]) for row in rows]) for name in rows[0]]
    out = f"{figure.title}.\nPublished: {figure.source}.\n\n{drawn(columns, terminal=terminal)}\n"
    for one, met in figure.verdicts():
        where, values = _named(one.where), _named(one.values)
        out += f"{where}: {'met' if met else 'not met'}: {values}, within {one.within:g}.\n"
    return out + "".join(f"{note}\n" for note in figure.notes)


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
        ("gain\n", "pto_gain_ms" if measure == "pto_first" else "gain_ms"),
        ("RTT\nfirst", "rtt_first_ms"),
        ("g\n", "g_ms"),
        ("published\nWFC", "published_wfc_ms"),
        ("\nIACK", "published_iack_ms"),
        ("\ngain", "published_gain_ms"),
    )
    return [
        Column("server\n", [one.server for one in found], right=False),
        Column("client\n", [one.client for one in found], right=False),
        Column("RTT\n", [f"{one.rtt_ms:g}" for one in found]),
        *(Column(title, [_ms(getattr(one, name)) for one in found]) for title, name in numbers),
        Column("trials done\nWFC", [f"{one.wfc_done}/{one.wfc_trials}" for one in found]),
        Column("\nIACK", [f"{one.iack_done}/{one.iack_trials}" for one in found]),
    ]


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
