"""Table 2 of paper 000, ours and published: table, expectations, and why some are not met."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from reports.numbers.compared import Panel, Series, series
from reports.tables.columns import Column
from testbed.measures import better_answer
from testbed.measures.better_answer import Advice
from testbed.measures.page import Check, Page, number
from testbed.trials.trial_row import Row

_TITLE = "When an instant ACK (IACK) is better than waiting for the certificate (WFC), by RTT"
_SOURCE = "IMC 2024, Table 2"
_LEGEND = (
    "Better, for so many pairs of cells: the first byte is earlier by more than 0.5 ms. Where nothing is\n"
    "lost and it is as early: WFC if only IACK makes the client probe before the ServerHello, else the\n"
    "shorter first PTO.\n"
    "Gain: median time to first byte with WFC minus that with IACK, ms, over these pairs.\n"
    "Over the limit: the server's first flight is longer than three times the client's ClientHello.\n"
)
_FLIPS_SERVERS = ("aioquic", "quic-go")
"""Servers whose default PTO is the paper's, 200 ms."""
_BELOW_MS, _ABOVE_MS = 100.0, 300.0
_NOT_MEASURED = (
    "Not measured: losses with a certificate over the limit (published: IACK), of which the paper has no "
    "figure, either."
)


@dataclass(frozen=True)
class _Reason:
    """Why lines are not as published: of a case, of `servers` and at `rtt_ms` (of all without any)."""

    lost: str
    reason: str
    delay: str | None = None
    certificate: str | None = None
    servers: tuple[str, ...] = ()
    rtt_ms: tuple[float, ...] = ()

    def is_of(self, one: Advice) -> bool:
        return (
            one.lost == self.lost
            and self.delay in (None, one.delay)
            and self.certificate in (None, one.certificate)
            and (not self.servers or one.server in self.servers)
            and (not self.rtt_ms or one.rtt_ms in self.rtt_ms)
        )


_REASONS = (
    _Reason(
        "server flight",
        "the published table leaves the RTT out, and the paper's own Figure 12 has IACK 402 to 514 ms ahead: "
        "with WFC the client's acknowledgement of a Handshake packet sets the server's timer by an RTT that "
        "is longer than its default PTO of 200 ms",
        servers=("quic-go",),
        rtt_ms=(300,),
    ),
    _Reason(
        "server flight",
        "with WFC the client's acknowledgement of the ServerHello sets the server's timer by the RTT, and "
        "that ends 50 ms after the default PTO, which repairs the loss with IACK",
        servers=("aioquic",),
        rtt_ms=(100,),
    ),
    _Reason(
        "server flight",
        "the server's default PTO ends before any acknowledgement, so its flight comes again at the same "
        "time with either answer",
        servers=("aioquic",),
        rtt_ms=(300,),
    ),
    _Reason(
        "nothing",
        "with IACK a ClientHello of two datagrams has two acknowledgements, and the second sample shortens "
        "the client's timeout: its probe leaves before a ServerHello that comes 25 ms after the bare ACK",
        delay="< 3 RTT",
        certificate="within",
        servers=("quic-go",),
        rtt_ms=(9,),
    ),
    _Reason(
        "nothing",
        "of a ClientHello of two datagrams the server asks for its certificate at the first one with IACK, "
        "and with WFC when both are there, 0.8 ms later",
        delay=">= 3 RTT",
        certificate="within",
        servers=("s2n-quic",),
        rtt_ms=(9,),
    ),
)


@dataclass(frozen=True)
class Derived:
    """A table that is made of the trials of experiments, the `sources`: its lines, summary and panels."""

    title: str
    source: str
    sources: tuple[str, ...]
    lines: Callable[[Path, Sequence[Row]], list[Advice]]
    summary: Callable[[Sequence[Advice], Sequence[str]], Page]
    panels: Callable[[Sequence[Advice]], list[Panel]]


def summary(found: Sequence[Advice], without: Sequence[str] = ()) -> Page:
    """Return the summary of lines; `without`: the sources that have no trials."""
    columns = [
        Column("certificate\n", [one.certificate for one in found], right=False),
        Column("lost\n", [one.lost for one in found], right=False),
        Column("delay\n", [one.delay or "-" for one in found], right=False),
        Column("server\n", [one.server for one in found], right=False),
        Column("RTT\nms", [f"{one.rtt_ms:g}" for one in found]),
        Column("better\nIACK", [str(one.iack) for one in found]),
        Column("\nWFC", [str(one.wfc) for one in found]),
        Column("\nsame", [str(one.same) for one in found]),
        Column("gain\nleast", [number(one.gain_low_ms, 1) for one in found]),
        Column("\nmedian", [number(one.gain_median_ms, 1) for one in found]),
        Column("\nmost", [number(one.gain_high_ms, 1) for one in found]),
        Column("ours\n", [one.ours for one in found], right=False),
        Column("publ.\n", [one.published for one in found], right=False),
    ]
    notes = [_NOT_MEASURED]
    notes += [f"No trials of {one}: `firstflight testbed run {one}` makes some." for one in without]
    return Page(_TITLE, _SOURCE, columns, _LEGEND, [*_checks(found), *_flips(found)], notes)


def panels(found: Sequence[Advice]) -> list[Panel]:
    """Return a panel for each case: the median gain over the RTT, by server."""
    made = []
    for case in dict.fromkeys(map(_case, found)):
        own = [one for one in found if _case(one) == case]
        curves: tuple[Series, ...] = ()
        for server in dict.fromkeys(one.server for one in own):
            curves += series(
                server, [(one.rtt_ms, one.gain_median_ms) for one in own if one.server == server]
            )
        made.append(Panel(case, "Gain in time to first byte [ms]", curves, "RTT [ms]"))
    return made


def _checks(found: Sequence[Advice]) -> list[Check]:
    return [
        Check(
            f"{_case(one)}, {one.rtt_ms:g} ms, server {one.server}",
            f"{one.published} is better",
            f"{one.ours} ({one.iack} IACK, {one.wfc} WFC, {one.same} the same)",
            one.ours == one.published,
            _reason(one) if one.ours != one.published else None,
        )
        for one in found
    ]


def _case(one: Advice) -> str:
    delay = f", delay {one.delay}" if one.delay else ""
    return f"certificate {one.certificate} the limit, {one.lost} lost{delay}"


def _reason(one: Advice) -> str | None:
    return next((why.reason for why in _REASONS if why.is_of(one)), None)


def _flips(found: Sequence[Advice]) -> list[Check]:
    """Return whether the first WFC of the table becomes IACK where the paper's own Figure 12 has it."""
    made = []
    for server in _FLIPS_SERVERS:
        at = {
            one.rtt_ms: one.ours
            for one in found
            if (one.certificate, one.lost, one.server) == ("within", "server flight", server)
        }
        if _BELOW_MS not in at or _ABOVE_MS not in at:
            continue
        flips = (at[_BELOW_MS], at[_ABOVE_MS]) == ("WFC", "IACK")
        made.append(
            Check(
                f"certificate within the limit, server flight lost, server {server}",
                f"WFC is better at {_BELOW_MS:g} ms, and IACK at {_ABOVE_MS:g} ms, as in Figure 12",
                f"{at[_BELOW_MS]}, and {at[_ABOVE_MS]}",
                flips,
                None if flips else _not_flipped(found, server),
            )
        )
    return made


def _not_flipped(found: Sequence[Advice], server: str) -> str | None:
    """Return the reasons of the lines between which there is no flip; None without one."""
    own = [
        one for one in found if (one.certificate, one.lost, one.server) == ("within", "server flight", server)
    ]
    reasons = [_reason(one) for one in own if one.rtt_ms in (_BELOW_MS, _ABOVE_MS)]
    return "; ".join(one for one in reasons if one) or None


BETTER = Derived(
    title=_TITLE,
    source=_SOURCE,
    sources=better_answer.SOURCES,
    lines=lambda out, rows: better_answer.advices(better_answer.pairs(out, rows)),
    summary=summary,
    panels=panels,
)
