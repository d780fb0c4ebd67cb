"""The panels of an experiment's figure, with our values and the published values."""

from __future__ import annotations

from collections.abc import Sequence

from reports.numbers.compared import Panel, Series, Where, series
from reports.numbers.gridded import Map, Maps
from testbed.experiment.experiment import Experiment, Measure
from testbed.measures.acks.asymmetry import Asymmetric
from testbed.measures.acks.byte_delay import Round
from testbed.measures.acks.cells import Acked
from testbed.measures.acks.composition import Composed
from testbed.measures.acks.survey import Client as Surveyed
from testbed.measures.better_answer import SAME_MS
from testbed.measures.default_pto import Client
from testbed.measures.gain import Gain
from testbed.measures.gain_page import gain_of
from testbed.measures.numeric import Numeric
from testbed.measures.own_log import Logged
from testbed.measures.own_pto import OwnPto
from testbed.measures.pacing import Paced
from testbed.measures.page import Line
from testbed.measures.sender_log import Launches

_GAINS = {"first_stream": "Gain in time to first byte [ms]", "pto_first": "Gain in first PTO [ms]"}
_RTT = "RTT [ms]"


def panels(experiment: Experiment, lines: Sequence[Line]) -> list[Panel]:
    """Return the panels of `lines`, the result of `measured`, without empty panels."""
    found = [
        *_gains([one for one in lines if isinstance(one, Gain)], experiment.measure),
        *_timers([one for one in lines if isinstance(one, Client)]),
        *_acked([one for one in lines if isinstance(one, Acked)]),
        *_asymmetric([one for one in lines if isinstance(one, Asymmetric)]),
        *_surveyed([one for one in lines if isinstance(one, Surveyed)]),
        *_composed([one for one in lines if isinstance(one, Composed)]),
        *_logged([one for one in lines if isinstance(one, Logged)]),
        *_own_timeouts([one for one in lines if isinstance(one, OwnPto)]),
        *_late([one for one in lines if isinstance(one, Round)]),
        *_launched([one for one in lines if isinstance(one, Launches)]),
        *_paced([one for one in lines if isinstance(one, Paced)]),
    ]
    return [one for one in found if one.series]


def maps(experiment: Experiment, lines: Sequence[Line]) -> Maps | None:
    """Return maps of the better answer over RTT and certificate delay, one for each pair of stacks.

    None unless the experiment judges the time to first byte and varies exactly these two. Pairs whose WFC is
    in effect an instant ACK are skipped.
    """
    found = [
        one for one in lines if isinstance(one, Gain) and one.gain_ms is not None and not one.partial_acks
    ]
    varied = experiment.vary.keys() - {"client", "server", "answering"}
    if experiment.measure != "first_stream" or not found or varied != {"rtt_ms", "certificate_delay_ms"}:
        return None
    values: dict[str, dict[tuple[float, float], float]] = {}
    servers = {one.server for one in found}
    for one in sorted(found, key=lambda one: (one.client, one.server)):
        title = one.client if len(servers) == 1 else f"{one.client}, {one.server}"
        place, own_values = (one.rtt_ms, one.certificate_delay_ms), values.setdefault(title, {})
        if place in own_values:
            return None  # a further cell differs in something else
        own_values[place] = one.gain_ms or 0
    names = ("IACK is better", "WFC is better", f"neither, within {SAME_MS:g} ms")
    own = tuple(Map(title, of, SAME_MS) for title, of in values.items())
    return Maps("RTT [ms]", "Delay of the certificate [ms]", names, own)


def computed(figure: Numeric) -> list[Panel]:
    """Return the panels of a figure that is computed: a curve for each value that rows have in common."""
    rows, shape = figure.rows(), figure.shape
    if shape is None:
        return []
    alike = dict.fromkeys(row[shape.alike] for row in rows)
    made = []
    for one in alike:
        own = [row for row in rows if row[shape.alike] == one]
        curves = [
            curve
            for name, label in shape.curves.items()
            for curve in series(label, [(row[shape.across], row[name]) for row in own])
        ]
        made.append(Panel(f"{shape.of} {one:g} ms", shape.axis, tuple(curves), shape.across_axis))
    return made


def _gains(found: Sequence[Gain], measure: Measure) -> list[Panel]:
    """Return a panel for each server: times of both answers, or the gain over several RTTs.

    Over several RTTs pairs of the same stacks that differ in more have panels of their own, too.
    """
    many = len({one.rtt_ms for one in found}) > 1
    made = []
    for server, more in dict.fromkeys((one.server, one.more if many else "") for one in found):
        own = [one for one in found if one.server == server and (not many or one.more == more)]
        if not any(one.wfc_done or one.iack_done for one in own):
            continue
        title = f"server {server}" + (f", {more}" if more else "")
        if many:
            curves = _over_rtt([one for one in own if one.wfc_done and one.iack_done], gain_of(measure))
            made.append(Panel(title, _GAINS[measure], curves, _RTT))
            continue
        dots: list[Series] = []
        for answer, name in (("wfc", "WFC"), ("iack", "IACK")):
            ours, theirs = f"{answer}_{measure}_ms", f"published_{answer}_ms"
            dots += series(name, [(_pair(one), getattr(one, ours)) for one in own])
            dots += series(name, [(_pair(one), getattr(one, theirs)) for one in own], published=True)
        axis = "Time to first byte [ms]" if measure == "first_stream" else "First PTO [ms]"
        made.append(Panel(title, axis, tuple(dots)))
    return made


def _pair(one: Gain) -> str:
    return f"{one.client}, {one.more}" if one.more else one.client


def _over_rtt(found: Sequence[Gain], name: str) -> tuple[Series, ...]:
    made: list[Series] = []
    for client in sorted({one.client for one in found}):
        own = [one for one in found if one.client == client]
        made += series(client, [(one.rtt_ms, getattr(one, name)) for one in own])
        made += series(client, [(one.rtt_ms, one.published_gain_ms) for one in own], published=True)
    return tuple(made)


def _timers(found: Sequence[Client]) -> list[Panel]:
    dots = series("default PTO", [(one.client, one.default_pto_ms) for one in found])
    dots += series(
        "default PTO", [(one.client, one.published_default_pto_ms) for one in found], published=True
    )
    return [Panel("Before any sample", "Default PTO [ms]", dots)] if found else []


def _acked(found: Sequence[Acked]) -> list[Panel]:
    shown = (
        ("Transfer", "Time [s]", "transfer_ms", "published_transfer_ms", 1e-3),
        ("ACKs", "ACKs [packets]", "acks", None, 1),
        ("ACKs by the timer", "Share [%]", "timer_percent", "published_timer_percent", 1),
        ("Bytes of the client", "Of the server's [%]", "client_percent", "published_client_percent", 1),
    )
    here = [one for one in found if one.done and one.ack_ratio is not None]
    groups: dict[str, list[Acked]] = {}
    for one in here:
        label = f"{one.rtt_ms:g} ms"
        if one.loss_percent:
            label += f", {(one.ack_reordering or 'own').replace('_', ' ')}"
        if one.more:
            label += f", {one.more}"
        if one.ack_delay_ms != here[0].ack_delay_ms:
            label += f", {one.ack_delay_ms or 0:g} late"
        groups.setdefault(label, []).append(one)
    made = []
    for title, axis, name, published, unit in shown:
        curves: list[Series] = []
        for label, own in groups.items():
            curves += series(label, [_over_ratio(one, name, unit) for one in own])
            if published is not None:
                theirs = [_over_ratio(one, published, unit) for one in own]
                curves += series(label, theirs, published=True)
        made.append(Panel(title, axis, tuple(curves), "Packets for each ACK, as asked"))
    return made if here else []


def _over_ratio(one: Acked, name: str, unit: float) -> tuple[Where, float | None]:
    value = getattr(one, name)
    return float(one.ack_ratio or 0), None if value is None else value * unit


def _asymmetric(found: Sequence[Asymmetric]) -> list[Panel]:
    dots = series("found", [(_path(one), one.mbit) for one in found])
    dots += series("expected", [(_path(one), one.expected_mbit) for one in found])
    return [Panel("Transfers' second half", "Rate of data [Mbit/s]", dots)] if found else []


def _path(one: Asymmetric) -> str:
    return f"{one.asymmetry:g}:1, ratio {one.ack_ratio or '-'}, {one.up_queue_packets}"


def _surveyed(found: Sequence[Surveyed]) -> list[Panel]:
    dots = series("by itself", [(one.client, one.eliciting_per_ack) for one in found])
    dots += series("after 100 packets", [(one.client, one.after100) for one in found])
    dots += series("when asked for 10", [(one.client, one.asked_eliciting_per_ack) for one in found])
    return [Panel("By client", "Packets for each ACK", dots)] if found else []


def _composed(found: Sequence[Composed]) -> list[Panel]:
    """Return panels of each length of a body: bytes by kind, and ACKs that are bundled."""
    made = []
    for size in dict.fromkeys(one.body_bytes for one in found):
        own = [one for one in found if one.body_bytes == size]
        title = f"Body of {size / 1000:g} kB"
        dots: list[Series] = []
        dots += series("headers", [(one.client, one.all_headers) for one in own])
        # The other kinds have no plot style; the table lists them.
        for kind in ("tags", "ack", "crypto", "stream", "padding"):
            dots += series(kind, [(one.client, getattr(one, kind)) for one in own])
        made.append(Panel(title, "Bytes for 100 of the server's", tuple(dots)))
        bundled = series("bundled", [(one.client, one.bundled_percent) for one in own])
        theirs = [(one.client, one.published.bundled_high_percent if one.published else None) for one in own]
        bundled += series("bundled", theirs, published=True)
        made.append(Panel(title, "ACKs with other frames [%]", bundled))
    return made


def _logged(found: Sequence[Logged]) -> list[Panel]:
    dots = series("updates", [(one.client, one.updates) for one in found])
    dots += series("updates", [(one.client, one.published_updates) for one in found], published=True)
    dots += series("new ACKs", [(one.client, one.samples) for one in found])
    dots += series("new ACKs", [(one.client, one.published_new_acks) for one in found], published=True)
    return [Panel("Of the RTT estimate", "Updates, and ACKs of something new", dots)] if found else []


def _own_timeouts(found: Sequence[OwnPto]) -> list[Panel]:
    made = []
    for title, name in (("by the logs", "pto_gain_ms"), ("by the packets", "rfc_gain_ms")):
        curves: list[Series] = []
        for client in sorted({one.client for one in found}):
            own = [one for one in found if one.client == client]
            curves += series(client, [(one.rtt_ms, getattr(one, name)) for one in own])
        made.append(Panel(title, "Gain in first PTO [ms]", tuple(curves), _RTT))
    return made


def _paced(found: Sequence[Paced]) -> list[Panel]:
    shown: tuple[tuple[str, str, str], ...] = (
        ("alone_percent", "Packets alone", "Share [%]"),
        ("below_percent", "Gaps of 0.1 ms or less", "Share [%]"),
        ("goodput_mbit", "Goodput", "Rate [Mbit/s]"),
        ("dropped", "Dropped by the queue", "Packets"),
    )
    made = []
    for name, title, axis in shown:
        dots = series("server", [(_server(one), getattr(one, name)) for one in found])
        theirs: list[tuple[Where, float | None]] = [
            (_server(one), getattr(one.published, name) if one.published else None) for one in found
        ]
        made.append(Panel(title, axis, dots + series("server", theirs, published=True)))
    return made if found else []


def _late(found: Sequence[Round]) -> list[Panel]:
    """Return a panel for each RTT: the packets that have come, over time, and how late these are."""
    made = []
    for rtt_ms in dict.fromkeys(one.rtt_ms for one in found):
        own = [one for one in found if one.rtt_ms == rtt_ms]
        came: tuple[Series, ...] = ()
        late: tuple[Series, ...] = ()
        for ratio in dict.fromkeys(one.ack_ratio for one in own):
            of_ratio = [one for one in own if one.ack_ratio == ratio]
            known = [(one.at_ms, one.packets) for one in of_ratio if one.at_ms is not None]
            came += series(f"ratio {ratio}", [(at_ms / 1000, packets) for at_ms, packets in known])
            late += series(f"ratio {ratio}", [(one.round, one.later_ms) for one in of_ratio])
        made.append(Panel(f"RTT {rtt_ms:g} ms", "Packets", came, "Time [s]"))
        made.append(Panel(f"RTT {rtt_ms:g} ms", "Later than ratio 2 [ms]", late, "Round trip"))
    return made


def _launched(found: Sequence[Launches]) -> list[Panel]:
    """Return the panels of precision by qdisc, and of a window over time for each cell with rollbacks."""
    dots: tuple[Series, ...] = ()
    for control in dict.fromkeys(one.congestion_control for one in found):
        own = [one for one in found if one.congestion_control == control]
        dots += series(str(control), [(one.qdisc, one.precision_ms) for one in own])
    # They are of a qdisc, whatever the control.
    theirs = list(dict.fromkeys((one.qdisc, one.published_precision_ms) for one in found))
    dots += series("server", theirs, published=True)
    made = [Panel("Launch times", "Standard deviation [ms]", dots)]
    for one in found:
        if one.congestion_control == "cubic":
            curve = series("window", [(at_s, size / 1000) for at_s, size in one.windows])
            made.append(Panel(f"CUBIC, qdisc {one.qdisc}", "Window [kB]", curve, "Time [s]"))
    return made if found else []


def _server(one: Paced) -> str:
    control = one.congestion_control or ""
    gso = {"off": "", "on": "GSO", "paced": "paced GSO"}[one.buffers]
    qdisc = "" if one.qdisc == "none" else one.qdisc
    return " ".join(part for part in (one.server, control, qdisc, gso) if part)
