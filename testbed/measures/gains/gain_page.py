"""The summary of gains: our values, published values and expectations."""

from __future__ import annotations

from collections.abc import Sequence

from reports.tables.columns import PrintedColumn
from testbed.measures.gains import rtt_lines, trend
from testbed.measures.gains.gain import SAME_MS, Gain, Gains, Judged
from testbed.summary import UNAVAILABLE, Check, SummaryPage, number, page, range_text

_UNAVAILABLE = "unavailable"


def summary(experiment: Gains, lines: Sequence[Gain], judged: Judged) -> SummaryPage:
    """Return the summary of pairs of cells."""
    available = [line for line in lines if not line.outcomes.startswith(_UNAVAILABLE)]
    missing = sorted({line.client for line in lines} - {line.client for line in available})
    legend = (
        f"Medians in ms {judged.definition}.\n"
        "Gain: WFC (wait for certificate) minus IACK (instant ACK).\n"
        "g: how much later the first ACK arrives with WFC.\n"
    )
    checks = [
        Check(
            ", ".join(part for part in (f"{line.client} at {line.rtt_ms:g} ms", line.more) if part)
            + f", server {line.server}",
            line.expected or "",
            f"{number(judged.of(line), 1)} ms",
            line.verdict == "met",
            line.found,
        )
        for line in available
        if line.verdict is not None
    ]
    checks += trend.checks(
        experiment,
        [
            trend.Gained(line.client, line.server, line.rtt_ms, judged.of(line), line.more)
            for line in available
            if not line.partial_acks
        ],
    )
    partial = sorted({f"{line.client} (server {line.server})" for line in available if line.partial_acks})
    further = [
        f"WFC is an instant ACK in effect with {', '.join(partial)}:",
        "the ClientHello takes two datagrams, and the server acknowledges the first immediately.",
    ]
    return page(
        experiment,
        _columns(available, judged),
        legend,
        checks,
        missing,
        len({line.client for line in lines}),
        without=UNAVAILABLE,
        further=[
            *(further if partial else ()),
            *(_crossings(available) if experiment.crossing else ()),
            *rtt_lines.sentences(experiment, available),
        ],
    )


def _zero_gain_rtt(points: Sequence[tuple[float, float]], place: int) -> float:
    """Return the interpolated RTT of zero gain, between a loss at `place` and the next RTT."""
    (below, loss), (above, gain) = points[place], points[place + 1]
    # A line through two losses crosses zero outside of this interval.
    return below + (above - below) * -loss / (max(gain, 0) - loss)


def _crossings(lines: Sequence[Gain]) -> list[str]:
    """Return, for each pair of stacks, a sentence with the RTT below which it loses time, interpolated."""
    sentences = []
    for client, server, more in dict.fromkeys((line.client, line.server, line.more) for line in lines):
        points = [
            (line.rtt_ms, line.gain_ms)
            for line in sorted(lines, key=lambda line: line.rtt_ms)
            if (line.client, line.server, line.more) == (client, server, more) and line.gain_ms is not None
        ]
        about = f"{client}, server {server}{f', {more}' if more else ''}"
        last = next((number for number in reversed(range(len(points))) if points[number][1] < -SAME_MS), None)
        if not points:
            continue
        if last is None:
            sentences.append(f"{about}: an instant ACK costs no time at any of these RTTs.")
        elif last == len(points) - 1:
            # The last RTT with a gain, and the last RTT with a loss before it.
            until = next((number for number in reversed(range(last)) if points[number][1] > SAME_MS), None)
            before = [number for number in range(until or 0) if points[number][1] < -SAME_MS]
            exception = (
                f"; before that below one of some {_zero_gain_rtt(points, before[-1]):.0f} ms"
                if before
                else ""
            )
            sentences.append(
                f"{about}: an instant ACK costs time at an RTT of {points[-1][0]:g} ms, too "
                f"({points[-1][1]:+.1f} ms){exception}."
            )
        else:
            (below, loss), (above, gain) = points[last], points[last + 1]
            at = _zero_gain_rtt(points, last)
            gained = [rtt_ms for rtt_ms, gain in points[:last] if gain > SAME_MS]
            since = f"between an RTT of {gained[-1]:g} ms and one" if gained else "below an RTT"
            sentences.append(
                f"{about}: an instant ACK costs time {since} of some {at:.0f} ms "
                f"({loss:+.1f} ms at {below:g}, {gain:+.1f} ms at {above:g})."
            )
    return sentences


def _columns(lines: Sequence[Gain], judged: Judged) -> list[PrintedColumn]:
    numbers = (
        ("WFC\n", f"wfc_{judged.time}_ms"),
        ("IACK\n", f"iack_{judged.time}_ms"),
        ("gain\n", judged.gain),
        ("RTT\nfirst", "rtt_first_ms"),
        ("g\n", "g_ms"),
        ("published\nWFC", "published_wfc_ms"),
        ("\nIACK", "published_iack_ms"),
        ("\ngain", "published_gain_ms"),
    )
    more = [line.more or "-" for line in lines]
    ranges = [range_text(line.published_low_ms, line.published_high_ms) for line in lines]
    return [
        PrintedColumn("server\n", [line.server for line in lines], right=False),
        PrintedColumn("client\n", [line.client for line in lines], right=False),
        PrintedColumn("RTT\n", [f"{line.rtt_ms:g}" for line in lines]),
        *([PrintedColumn("cell\n", more, right=False)] if any(line.more for line in lines) else []),
        *(
            PrintedColumn(title, [number(getattr(line, name), 1) for line in lines])
            for title, name in numbers
        ),
        *([PrintedColumn("\nrange", ranges)] if any(text != "-" for text in ranges) else []),
        PrintedColumn("trials done\nWFC", [f"{line.wfc_done}/{line.wfc_trials}" for line in lines]),
        PrintedColumn("\nIACK", [f"{line.iack_done}/{line.iack_trials}" for line in lines]),
    ]
