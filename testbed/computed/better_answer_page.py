"""Table 2 of paper 000, ours and published: table, expectations, and reasons for unmet ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from reports import published_values
from reports.numbers.compared import ComparisonPanel, ComparisonSeries, series
from reports.tables.columns import PrintedColumn
from testbed.computed import better_answer
from testbed.computed.better_answer import PairCount
from testbed.summary import Check, SummaryPage, number
from testbed.trials.trial_row import TrialRow

_TITLE = "When an instant ACK (IACK) is better than waiting for the certificate (WFC), by RTT"
_SOURCE = "IMC 2024, Table 2"
_LEGEND = (
    "Better: number of pairs of cells in which the first byte is earlier by more than 0.5 ms. If nothing is\n"
    "lost and both first bytes are equally early: WFC if only IACK makes the client probe before the\n"
    "ServerHello, else the answer with the shorter first PTO.\n"
    "Gain: median time to first byte with WFC minus that with IACK, ms, over these pairs.\n"
    "Over the limit: the server's first flight is longer than three times the client's ClientHello.\n"
)
_FLIPS_SERVERS = ("aioquic", "quic-go")
"""Servers with the paper's default PTO of 200 ms."""
_BELOW_MS, _ABOVE_MS = 100.0, 300.0
_NOT_MEASURED = "Not measured: losses with a certificate over the limit."
_NOT_MEASURED_PUBLISHED = "Published of them: IACK, without a figure."


@dataclass(frozen=True)
class _Reason:
    """The reason why some lines differ from the published table; empty `servers` or `rtt_ms` match all."""

    lost: str
    reason: str
    delay: str | None = None
    certificate: str | None = None
    servers: tuple[str, ...] = ()
    rtt_ms: tuple[float, ...] = ()

    def is_of(self, advice: PairCount) -> bool:
        return (
            advice.lost == self.lost
            and self.delay in (None, advice.delay)
            and self.certificate in (None, advice.certificate)
            and (not self.servers or advice.server in self.servers)
            and (not self.rtt_ms or advice.rtt_ms in self.rtt_ms)
        )


_REASONS = (
    _Reason(
        "server flight",
        "the published table ignores the RTT, but Figure 12 of the paper shows IACK ahead by 402 to 514 ms: "
        "with WFC, the client's acknowledgement of a Handshake packet sets the server's timer by an RTT "
        "longer than the default PTO of 200 ms",
        servers=("quic-go",),
        rtt_ms=(300,),
    ),
    _Reason(
        "server flight",
        "with WFC, the client's acknowledgement of the ServerHello sets the server's timer by the RTT; this "
        "timer expires 50 ms after the default PTO, which repairs the loss with IACK",
        servers=("aioquic",),
        rtt_ms=(100,),
    ),
    _Reason(
        "server flight",
        "the server's default PTO expires before any acknowledgement arrives, so the server resends its "
        "flight at the same time with either answer",
        servers=("aioquic",),
        rtt_ms=(300,),
    ),
    _Reason(
        "nothing",
        "with IACK, a ClientHello of two datagrams gets two acknowledgements, and the second RTT sample "
        "shortens the client's timeout: its probe leaves before a ServerHello that arrives 25 ms after the "
        "bare ACK",
        delay="< 3 RTT",
        certificate="within",
        servers=("quic-go",),
        rtt_ms=(9,),
    ),
    _Reason(
        "nothing",
        "for a ClientHello of two datagrams, the server requests its certificate after the first datagram "
        "with IACK, but after both datagrams with WFC, 0.8 ms later",
        delay=">= 3 RTT",
        certificate="within",
        servers=("s2n-quic",),
        rtt_ms=(9,),
    ),
)


@dataclass(frozen=True)
class Derived:
    """A table computed from the trials of the experiments `sources`: its lines, summary and panels."""

    title: str
    source: str
    sources: tuple[str, ...]
    lines: Callable[[Path, Sequence[TrialRow]], list[PairCount]]
    summary: Callable[[Sequence[PairCount], Sequence[str]], SummaryPage]
    panels: Callable[[Sequence[PairCount]], list[ComparisonPanel]]


def summary(advices: Sequence[PairCount], without: Sequence[str] = ()) -> SummaryPage:
    """Return the summary of lines; `without`: the sources without trials.

    Checks compare with published values, so there are none if these are hidden.
    """
    columns = [
        PrintedColumn("certificate\n", [advice.certificate for advice in advices], right=False),
        PrintedColumn("lost\n", [advice.lost for advice in advices], right=False),
        PrintedColumn("delay\n", [advice.delay or "-" for advice in advices], right=False),
        PrintedColumn("server\n", [advice.server for advice in advices], right=False),
        PrintedColumn("RTT\nms", [f"{advice.rtt_ms:g}" for advice in advices]),
        PrintedColumn("better\nIACK", [str(advice.iack) for advice in advices]),
        PrintedColumn("\nWFC", [str(advice.wfc) for advice in advices]),
        PrintedColumn("\nsame", [str(advice.same) for advice in advices]),
        PrintedColumn("gain\nleast", [number(advice.gain_low_ms, 1) for advice in advices]),
        PrintedColumn("\nmedian", [number(advice.gain_median_ms, 1) for advice in advices]),
        PrintedColumn("\nmost", [number(advice.gain_high_ms, 1) for advice in advices]),
        PrintedColumn("ours\n", [advice.ours for advice in advices], right=False),
    ]
    checks, notes = [], [_NOT_MEASURED]
    if published_values.are_shown():
        columns.append(PrintedColumn("publ.\n", [advice.published or "-" for advice in advices], right=False))
        checks = [*_checks(advices), *_flips(advices)]
        notes.append(_NOT_MEASURED_PUBLISHED)
    notes += [f"No trials of {name}: `firstflight testbed run {name}` makes some." for name in without]
    return SummaryPage(_TITLE, _SOURCE, columns, _LEGEND, checks, notes)


def panels(advices: Sequence[PairCount]) -> list[ComparisonPanel]:
    """Return a panel for each case: the median gain over the RTT, by server."""
    figure = []
    for case in dict.fromkeys(map(_case, advices)):
        group = [advice for advice in advices if _case(advice) == case]
        curves: tuple[ComparisonSeries, ...] = ()
        for server in dict.fromkeys(advice.server for advice in group):
            curves += series(
                server,
                [(advice.rtt_ms, advice.gain_median_ms) for advice in group if advice.server == server],
            )
        figure.append(ComparisonPanel(case, "Gain in time to first byte [ms]", curves, "RTT [ms]"))
    return figure


def _checks(advices: Sequence[PairCount]) -> list[Check]:
    return [
        Check(
            f"{_case(advice)}, {advice.rtt_ms:g} ms, server {advice.server}",
            f"{advice.published} is better",
            f"{advice.ours} ({advice.iack} IACK, {advice.wfc} WFC, {advice.same} the same)",
            advice.ours == advice.published,
            _reason(advice) if advice.ours != advice.published else None,
        )
        for advice in advices
    ]


def _case(advice: PairCount) -> str:
    delay = f", delay {advice.delay}" if advice.delay else ""
    return f"certificate {advice.certificate} the limit, {advice.lost} lost{delay}"


def _reason(advice: PairCount) -> str | None:
    return next((why.reason for why in _REASONS if why.is_of(advice)), None)


def _flips(advices: Sequence[PairCount]) -> list[Check]:
    """Return whether the table's first WFC becomes IACK at the RTTs of the paper's Figure 12."""
    verdicts = []
    for server in _FLIPS_SERVERS:
        at = {
            advice.rtt_ms: advice.ours
            for advice in advices
            if (advice.certificate, advice.lost, advice.server) == ("within", "server flight", server)
        }
        if _BELOW_MS not in at or _ABOVE_MS not in at:
            continue
        flips = (at[_BELOW_MS], at[_ABOVE_MS]) == ("WFC", "IACK")
        verdicts.append(
            Check(
                f"certificate within the limit, server flight lost, server {server}",
                f"WFC is better at {_BELOW_MS:g} ms, and IACK at {_ABOVE_MS:g} ms, as in Figure 12",
                f"{at[_BELOW_MS]}, and {at[_ABOVE_MS]}",
                flips,
                None if flips else _not_flipped(advices, server),
            )
        )
    return verdicts


def _not_flipped(advices: Sequence[PairCount], server: str) -> str | None:
    """Return the reasons for the lines without a flip between them; `None` without reasons."""
    group = [
        advice
        for advice in advices
        if (advice.certificate, advice.lost, advice.server) == ("within", "server flight", server)
    ]
    reasons = [_reason(advice) for advice in group if advice.rtt_ms in (_BELOW_MS, _ABOVE_MS)]
    return "; ".join(reason for reason in reasons if reason) or None


BETTER = Derived(
    title=_TITLE,
    source=_SOURCE,
    sources=better_answer.SOURCES,
    lines=lambda out, rows: better_answer.advices(better_answer.pairs(out, rows)),
    summary=summary,
    panels=panels,
)
