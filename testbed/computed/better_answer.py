"""When an instant ACK is better than waiting for the certificate (paper 000, Table 2), from our own trials.

Each pair of cells belongs to one condition of the table: the loss, whether the certificate exceeds the limit
(amplification_limit.py), and whether its delay is three RTTs or more. The answer with the earlier first byte
is better. If no packet is lost and both first bytes arrive at the same time, WFC is better if the client
probes before the ServerHello only with IACK, because that probe is useless. Otherwise the answer with the
shorter first probe timeout is better.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Literal

from reports import published_values
from testbed.choices import Answering
from testbed.computed import amplification_limit
from testbed.computed.numeric import is_spurious
from testbed.measures.gains.gain import SAME_MS
from testbed.trials.captures import captured_packets
from testbed.trials.cell_rows import column, difference, done, median_ms, median_of
from testbed.trials.trial_row import TrialRow

SOURCES = ("iack-loss-server", "iack-loss-client", "iack-ttfb", "iack-first-pto", "iack-map")
"""The experiments with the trials: Figures 6 and 12, 7 and 13, 5, 16; further RTTs over the limit."""
Lost = Literal["server flight", "second flight", "nothing"]
Better = Literal["IACK", "WFC", "same"]
_BOTH: tuple[Answering, Answering] = ("wfc", "iack")
_CONDITIONS = ("client", "server", "rtt_ms", "certificate_bytes", "certificate_delay_ms")


@dataclass(frozen=True, order=True)
class BetterAnswerCase:
    """Conditions of the table. `longer`: the delay is three RTTs or more; `None` with loss."""

    over: bool
    lost: Lost
    longer: bool | None

    @property
    def published(self) -> Better:
        """Return the advice of Table 2."""
        return "WFC" if not self.over and (self.lost == "server flight" or self.longer) else "IACK"


@dataclass(frozen=True)
class Pair:
    """Two cells that differ only in the answer. Times are medians in ms; null without completed trials.

    `probes`: the number of additional client probes before the ServerHello with IACK; null if the cell loses
    datagrams. `better` is null if a required time is unknown.
    """

    case: BetterAnswerCase
    client: str
    server: str
    rtt_ms: float
    gain_ms: float | None
    pto_gain_ms: float | None
    probes: float | None

    @property
    def better(self) -> Better | None:
        """Return the better answer for this pair."""
        if self.gain_ms is None:
            return None
        if abs(self.gain_ms) > SAME_MS:
            return "IACK" if self.gain_ms > 0 else "WFC"
        if self.case.lost != "nothing":
            return "same"
        if self.probes is None or self.pto_gain_ms is None:
            return None
        if self.probes > 0:
            return "WFC"
        return "IACK" if self.pto_gain_ms > SAME_MS else "same"


@dataclass(frozen=True)
class PairCount:
    """The pairs for a case, server and RTT; `iack`, `wfc`, `same`: the number of pairs with this result.

    `ours` is the result of more than half of the pairs, or `split`; `published` is the advice of Table 2,
    null if published values are hidden. Gains in ms: minimum, median, maximum.
    """

    certificate: str
    lost: str
    delay: str
    server: str
    rtt_ms: float
    pairs: int
    iack: int
    wfc: int
    same: int
    gain_low_ms: float
    gain_median_ms: float
    gain_high_ms: float
    ours: str
    published: str | None

    def as_dict(self) -> dict[str, Any]:
        """Return the columns as a dictionary."""
        return asdict(self)


def pairs(out: Path, rows: Sequence[TrialRow]) -> list[Pair]:
    """Return the pairs of cells in `rows` that belong to a case. The rows come from SOURCES in `out`.

    InputError if a required capture was not kept.
    """
    groups: dict[tuple[Any, ...], dict[str, list[TrialRow]]] = {}
    for row in done(rows):
        key = (row["experiment"], *(row[name] for name in _CONDITIONS))
        groups.setdefault(key, {name: [] for name in _BOTH})[row["answering"]].append(row)
    return [pair for answers in groups.values() if all(answers.values()) for pair in _pair(out, answers)]


def advices(paired: Sequence[Pair]) -> list[PairCount]:
    """Return a line for each case, server and RTT."""
    groups: dict[tuple[BetterAnswerCase, str, float], list[Pair]] = {}
    for pair in paired:
        if pair.better is not None:
            groups.setdefault((pair.case, pair.server, pair.rtt_ms), []).append(pair)
    ordered = sorted(groups.items(), key=lambda group: (_sort_key(group[0][0]), *group[0][1:]))
    return [_advice(case, server, rtt_ms, case_pairs) for (case, server, rtt_ms), case_pairs in ordered]


def _pair(out: Path, answers: dict[str, list[TrialRow]]) -> Iterator[Pair]:
    """Yield the pair of two cells' trials, if it belongs to a case."""
    wfc, iack = (answers[name] for name in _BOTH)
    # The server acknowledged half a ClientHello immediately, so WFC is in effect an instant ACK.
    if any(row["partial_ack_us"] is not None for row in wfc):
        return
    row = iack[0]
    lost = _lost_part(row)
    over, longer, probes = False, None, None
    if lost == "nothing":
        # Without a delay both answers are the same.
        if row["certificate_delay_ms"] <= 0:
            return
        folder = out / row["experiment"]
        known = [
            amplification_limit.is_over(packets) for packets in captured_packets.connections(folder, wfc)
        ]
        if not known or None in known:
            return
        over = any(known)
        longer = is_spurious(row["rtt_ms"], row["certificate_delay_ms"])
        probes = difference(
            *(
                median_of(captured_packets.summaries_of(folder, rows), column("probes"))
                for rows in (iack, wfc)
            )
        )
    times = [median_ms(rows, column("first_stream_us")) for rows in (wfc, iack)]
    timeouts = [median_ms(rows, column("pto_first_us")) for rows in (wfc, iack)]
    yield Pair(
        case=BetterAnswerCase(over, lost, longer),
        client=row["client"],
        server=row["server"],
        rtt_ms=row["rtt_ms"],
        gain_ms=difference(*times),
        pto_gain_ms=difference(*timeouts),
        probes=probes,
    )


def _lost_part(row: TrialRow) -> Lost:
    if row["drop_second_flight"]:
        return "second flight"
    return "server flight" if row["drop_to_client"] else "nothing"


def _sort_key(case: BetterAnswerCase) -> tuple[Any, ...]:
    """Return the sort key that orders cases as in the table."""
    return case.over, ("server flight", "second flight", "nothing").index(case.lost), bool(case.longer)


def _advice(case: BetterAnswerCase, server: str, rtt_ms: float, paired: Sequence[Pair]) -> PairCount:
    answers = [pair.better for pair in paired]
    gains = [pair.gain_ms for pair in paired if pair.gain_ms is not None]
    counts = {answer: answers.count(answer) for answer in ("IACK", "WFC", "same")}
    return PairCount(
        certificate="over" if case.over else "within",
        lost=case.lost,
        delay="" if case.longer is None else ">= 3 RTT" if case.longer else "< 3 RTT",
        server=server,
        rtt_ms=rtt_ms,
        pairs=len(paired),
        iack=counts["IACK"],
        wfc=counts["WFC"],
        same=counts["same"],
        gain_low_ms=min(gains),
        gain_median_ms=median(gains),
        gain_high_ms=max(gains),
        ours=next((answer for answer, count in counts.items() if 2 * count > len(paired)), "split"),
        published=case.published if published_values.are_shown() else None,
    )
