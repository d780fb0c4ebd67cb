"""How clients estimate the RTT, from the timeouts that captures show (paper 000, section 5 and appendix D).

Can a client correct its estimate without an instant ACK? It could take a sample from a Retry (RFC 9002,
6.2.2), subtract ACK Delay from its first sample (RFC 9002 does not), or start again from a later sample.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from reports.numbers import rfc9002
from reports.numbers.compared import ComparisonPanel, series
from reports.tables.columns import PrintedColumn
from testbed.experiment.cell import Cell
from testbed.experiment.experiment import Experiment
from testbed.measures import Measure, Results
from testbed.measures.estimates import probe_timers
from testbed.measures.estimates.probe_timers import LaterTimer
from testbed.summary import UNAVAILABLE, SummaryPage, number, page
from testbed.trials.captures import captured_packets
from testbed.trials.captures.packets import Packet
from testbed.trials.cell_rows import by_cell, done, median_ms
from testbed.trials.trial_row import TrialRow

T = TypeVar("T")
FIRST_PTO_RTTS = 3
"""The first probe timeout is three times the first RTT sample, or the assumed RTT (RFC 9002, 6.2.1)."""
_CLEARLY_LESS = 0.9


class RttUse(Experiment):
    """How clients estimate the RTT, from their probe timeouts (paper 000, section 5 and appendix D).

    Cells with a Retry show whether it is a sample; cells whose second flight is lost, whether the client
    subtracts ACK Delay; cells with late datagrams, whether it starts again from a shorter sample.
    """


@dataclass(frozen=True)
class RttUsed:
    """A client. Times in ms, medians over completed trials; null without any.

    `retry_probe_ms`: from the Initial after the Retry to the probe; `retry_rtt_ms`: the RTT of the Retry;
    `uses_retry`: the timeout is three such RTTs, rather than the default.
    `repeated_ms`: from the lost second flight to its repetition; `first_rtt_ms`: the first sample, of which
    the server reported `ack_delay_ms`; `subtracts`: it is too early for the whole sample.
    `later_ms`: the timeout after a shorter sample; `later_rfc_ms`: by RFC 9002; `later_restart_ms`: if the
    client started again from that sample; `restarts`: which one is closer. `backs_off`: the timeout was
    multiplied by two for each earlier probe, although probes were acknowledged; later_ms is without that.
    """

    client: str
    version: str | None
    trials: int
    retry_probe_ms: float | None
    retry_rtt_ms: float | None
    uses_retry: bool | None
    repeated_ms: float | None
    first_rtt_ms: float | None
    ack_delay_ms: float | None
    subtracts: bool | None
    later_ms: float | None
    later_rfc_ms: float | None
    later_restart_ms: float | None
    restarts: bool | None
    backs_off: bool | None

    def as_dict(self) -> dict[str, Any]:
        """Return the columns as a dictionary."""
        return asdict(self)


def clients(experiment: RttUse, folder: Path, rows: Sequence[TrialRow]) -> list[RttUsed]:
    """Return a line for each client, in the experiment's order; the captures are in `folder`.

    InputError if a capture was not kept, or a row belongs to no cell of the experiment.
    """
    cells: dict[str, list[tuple[Cell, list[TrialRow]]]] = {}
    for cell, cell_rows in by_cell(experiment, rows):
        cells.setdefault(cell.client, []).append((cell, done(cell_rows)))
    return [_client(folder, name, of_client) for name, of_client in cells.items()]


def closer(value: float, candidates: Mapping[T, float]) -> T:
    """Return the name of the positive candidate with the smallest ratio to a positive value."""
    return min(candidates, key=lambda name: abs(math.log(value / candidates[name])))


def later(timer: LaterTimer) -> tuple[float, float, float, bool, bool | None]:
    """Return the timeout without back-off, RFC 9002's, the restarted one, and which of them it is.

    The last value is whether the client backed off; `None` if it had sent no probe. Times in us.
    """
    *earlier_us, rfc_us = rfc9002.pto_series(timer.samples)
    restart_us = rfc9002.first_pto(timer.samples[-1])
    factors = {False: 1, True: 2**timer.probes}
    if timer.before_us is not None and timer.probes > 1:
        # The timeout before, after which the samples were equal, shows whether the client backs off.
        doubled_us = earlier_us[-1] * 2 ** (timer.probes - 1)
        backed_off = closer(timer.before_us, {"no": earlier_us[-1], "yes": doubled_us}) == "yes"
        factors = {backed_off: factors[backed_off]}
    timeouts = {(kept, "rfc"): rfc_us * factor for kept, factor in factors.items()}
    timeouts |= {(kept, "restart"): restart_us * factor for kept, factor in factors.items()}
    kept, name = closer(timer.interval_us, timeouts)
    backs_off = kept if timer.probes else None
    return timer.interval_us / factors[kept], rfc_us, restart_us, name == "restart", backs_off


def _client(folder: Path, name: str, cells: Sequence[tuple[Cell, list[TrialRow]]]) -> RttUsed:
    connections: dict[str, list[list[Packet]]] = {"retry": [], "lost": [], "late": []}
    for cell, rows in cells:
        kind = "retry" if cell.handshake == "retry" else "lost" if cell.drop_second_flight else "late"
        connections[kind] += captured_packets.connections(folder, rows)
    retries = [found for packets in connections["retry"] if (found := probe_timers.after_retry(packets))]
    lost = [
        (repeated, sample)
        for packets in connections["lost"]
        if (repeated := probe_timers.repeated_after(packets)) is not None
        and (sample := next(probe_timers.initial_samples(packets), None)) is not None
    ]
    timers = [later(timer) for packets in connections["late"] if (timer := probe_timers.later_timer(packets))]
    retry_rtt_ms, probe_ms = median_ms(retries, lambda it: it[0]), median_ms(retries, lambda it: it[1])
    repeated_ms = median_ms(lost, lambda it: it[0])
    rtt_ms = median_ms(lost, lambda it: it[1].rtt_us)
    delay_ms = median_ms(lost, lambda it: it[1].ack_delay_us)
    ended = [row for _, rows in cells for row in rows]
    return RttUsed(
        client=name,
        version=ended[0]["client_version"] if ended else None,
        trials=len(ended),
        retry_probe_ms=probe_ms,
        retry_rtt_ms=retry_rtt_ms,
        uses_retry=_uses_retry(probe_ms, retry_rtt_ms),
        repeated_ms=repeated_ms,
        first_rtt_ms=rtt_ms,
        ack_delay_ms=delay_ms,
        subtracts=_subtracts(repeated_ms, rtt_ms, delay_ms),
        later_ms=median_ms(timers, lambda it: it[0]),
        later_rfc_ms=median_ms(timers, lambda it: it[1]),
        later_restart_ms=median_ms(timers, lambda it: it[2]),
        restarts=timers[0][3] if timers else None,
        backs_off=timers[0][4] if timers else None,
    )


def _uses_retry(probe_ms: float | None, rtt_ms: float | None) -> bool | None:
    """Return whether a timeout is closer to three RTTs than to ten times as much; defaults are longer."""
    if not probe_ms or not rtt_ms:
        return None
    used_ms = FIRST_PTO_RTTS * rtt_ms
    return closer(probe_ms, {"used": used_ms, "default": 10 * used_ms}) == "used"


def _subtracts(repeated_ms: float | None, rtt_ms: float | None, delay_ms: float | None) -> bool | None:
    """Return whether a timeout is shorter than three samples, the shortest one with the whole sample."""
    if not repeated_ms or not rtt_ms or not delay_ms or delay_ms >= rtt_ms:
        return None
    return repeated_ms < _CLEARLY_LESS * FIRST_PTO_RTTS * rtt_ms


def summary(experiment: RttUse, lines: Sequence[RttUsed]) -> SummaryPage:
    """Return the summary of clients."""
    completed = [line for line in lines if line.trials]
    columns = [
        PrintedColumn("client\n", [line.client for line in completed], right=False),
        PrintedColumn("version\n", [line.version or "-" for line in completed], right=False),
        PrintedColumn("Retry:\nprobe", [number(line.retry_probe_ms, 1) for line in completed]),
        PrintedColumn("\nused", [_word(line.uses_retry) for line in completed], right=False),
        PrintedColumn("ACK Delay:\nrepeats", [number(line.repeated_ms, 1) for line in completed]),
        PrintedColumn("\nsubtracted", [_word(line.subtracts) for line in completed], right=False),
        PrintedColumn("shorter\ntimeout", [number(line.later_ms, 1) for line in completed]),
        PrintedColumn("\nRFC 9002", [number(line.later_rfc_ms, 1) for line in completed]),
        PrintedColumn("\nrestart", [number(line.later_restart_ms, 1) for line in completed]),
        PrintedColumn("\nrestarts", [_word(line.restarts) for line in completed], right=False),
        PrintedColumn("back-off\nkept", [_word(line.backs_off) for line in completed], right=False),
    ]
    legend = (
        "Times in ms. Retry: from the Initial after a Retry to the client's probe; used: this is three\n"
        "times the RTT of the Retry. ACK Delay: from the lost second flight to its repetition;\n"
        "subtracted: this is less than three times the first sample, which has the delay. Shorter: the\n"
        "timeout after a sample that is much shorter than the first ones, by RFC 9002, and if the client\n"
        "started again from it. It counts from the probe; a client that counts from the ACK takes up to an\n"
        "RTT more. Back-off kept: acknowledged probes do not reset the back-off (RFC 9002, 6.2.1); the\n"
        "timeout is without it.\n"
    )
    missing = [line.client for line in lines if not line.trials]
    return page(experiment, columns, legend, (), missing, len(lines), without=UNAVAILABLE)


def _word(value: bool | None) -> str:
    return "-" if value is None else ("no", "yes")[value]


def panels(lines: Sequence[RttUsed]) -> list[ComparisonPanel]:
    """Return the figure: the timeouts of each client in the three cases."""
    plots = (
        ("After a Retry", "Time to the probe [ms]", "retry_probe_ms"),
        ("With ACK Delay", "Time to the repetition [ms]", "repeated_ms"),
        ("After a shorter sample", "Probe timeout [ms]", "later_ms"),
    )
    return [
        ComparisonPanel(title, axis, series(axis, [(line.client, getattr(line, name)) for line in lines]))
        for title, axis, name in plots
    ]


def results(experiment: RttUse, folder: Path, rows: Sequence[TrialRow]) -> Results:
    """Return a line for each client, read from the captures in `folder`."""
    lines = clients(experiment, folder, rows)
    return Results(lines, lambda: summary(experiment, lines), lambda: panels(lines))


MEASURE = Measure(RttUse, results)
