"""Checks that engines with shared limits take turns and together keep the limits."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import NamedTuple

MS = 1_000_000
SECOND = 1_000 * MS
# Probes of each engine. Both together send for six seconds at 20 a second. This is several turns, even if one
# engine starts seconds later.
EACH = 60


def check_turns(sent: list[tuple[int, int]], each: int) -> None:
    """Check the packets of two engines that share 20 a second: `each` packets per engine.

    A packet is (time in ns, engine 0 or 1). Limit and slack (300 ms) apply to the times of the engines'
    decisions. Timestamps are slightly later. This changes single gaps but not their median.
    """
    sent = sorted(sent)
    assert [index for _, index in sent].count(0) == each == [index for _, index in sent].count(1)
    gaps: dict[bool, list[int]] = {True: [], False: []}
    for (before, who), (after, other) in pairwise(sent):
        gaps[who == other].append(after - before)
    assert median(gaps[True]) > 45 * MS
    assert len(gaps[False]) >= 3 and median(gaps[False]) > 250 * MS
    assert min(gaps[False]) > 0


class Sent(NamedTuple):
    """A probe of engine number `who`: it left at `left_ns` or later, and was on the link at `seen_ns`.

    Both are times of packets (UTC), and may be of the same packet. `left_ns` is 0 if unknown.
    """

    seen_ns: int
    left_ns: int
    who: int
    ip: str

    def moved(self, seen_ns: int) -> Sent:
        """Return the same probe, sent and seen at another time."""
        return self._replace(seen_ns=seen_ns, left_ns=seen_ns)


class Decided(NamedTuple):
    """An engine's decision to probe: after `after_ns`, and at `until_ns` at the latest."""

    after_ns: int
    until_ns: int
    who: int
    ip: str


@dataclass(frozen=True)
class SharedLimits:
    """Limits (probes a second) that `of` engines share by turns; their clocks differ by `slack_s`.

    Design 0008 has the rule. The checks use the times of the engines' decisions, so delays of engines or
    packets do not matter. A decision lies between two times of packets; a check only fails if every decision
    time in that interval breaks the limit.
    """

    of: int
    prefix_rate: float
    address_rate: float
    slack_s: float

    @property
    def pause_ns(self) -> int:
        """The pause at the end of a turn, one fifth of the turn."""
        return int((1 / min(self.prefix_rate, self.address_rate) + self.slack_s) * SECOND)

    def check(self, sent: Sequence[Sent], dense: Set[str] = frozenset({"prefix", "address"})) -> None:
        """Check that the probes keep all limits, and that probes with an injected fault break them.

        `dense`: the limits with enough probes to break if the probes move closer together.
        """
        assert self.broken(sent) == {}
        closer = [probe.moved(probe.seen_ns // 4) for probe in sent]
        assert self.broken(closer).keys() >= dense
        early = [probe.moved(probe.seen_ns - self.pause_ns) for probe in sent]
        assert self.broken(early).keys() == {"turn"}
        others = [probe._replace(who=(probe.who + 1) % self.of) for probe in sent]
        assert self.broken(others).keys() == {"turn"}
        assert self.broken(self.without_turns(sent)).keys() >= {"prefix", "turn"}

    def without_turns(self, sent: Sequence[Sent]) -> list[Sent]:
        """Return the same probes as sent by engines without turns, each at a prefix's full limit."""
        found, before = [], Counter[tuple[int, str]]()
        begun_ns = min(probe.seen_ns for probe in sent)
        for probe in sorted(sent):
            place = probe.who, prefix_of(probe.ip)
            found.append(probe.moved(begun_ns + int(before[place] * SECOND / self.prefix_rate)))
            before[place] += 1
        return found

    def broken(self, sent: Iterable[Sent]) -> dict[str, object]:
        """Return the limits that the engines together exceeded, and where."""
        decisions = decided(sent)
        groups: dict[str, dict[str, list[Decided]]] = {"prefix": {}, "address": {}}
        for decision in decisions:
            groups["prefix"].setdefault(prefix_of(decision.ip), []).append(decision)
            groups["address"].setdefault(decision.ip, []).append(decision)
        rates = {"prefix": self.prefix_rate, "address": self.address_rate}
        found: dict[str, object] = {
            name: [dense for group in groups[name].values() for dense in too_dense(group, rate)]
            for name, rate in rates.items()
        }
        slack_ns = int(self.slack_s * SECOND)
        found["turn"] = [
            decision
            for decision in decisions
            if self.allowed_from(decision.who, decision.ip, decision.after_ns - slack_ns)
            > decision.until_ns + slack_ns
        ]
        return {name: places for name, places in found.items() if places}

    def allowed_from(self, who: int, ip: str, at_ns: int) -> int:
        """Return the earliest time from `at_ns` (UTC) when engine `who` may probe the prefix of `ip`."""
        length_ns = 5 * self.pause_ns
        turn, begun_ns = divmod(at_ns, length_ns)
        wait = (who - turn - _hash_of_prefix(ip)) % self.of
        if wait == 0 and begun_ns < length_ns - self.pause_ns:
            return at_ns
        return (turn + (wait or self.of)) * length_ns


def decided(sent: Iterable[Sent]) -> list[Decided]:
    """Return the interval in which the engine decided to send each probe.

    An engine decides on a batch of several prefixes, and sends the whole batch before it decides again. So it
    decides on a prefix after the last probe to that prefix has left.
    """
    found, last = [], dict[tuple[int, str], int]()
    for probe in sorted(sent, key=lambda sent_probe: sent_probe.left_ns or sent_probe.seen_ns):
        place = probe.who, prefix_of(probe.ip)
        found.append(Decided(last.get(place, 0), probe.seen_ns, probe.who, probe.ip))
        last[place] = max(last.get(place, 0), probe.left_ns)
    return found


def too_dense(decisions: Iterable[Decided], rate: float) -> list[str]:
    """Return where the engines' decisions exceed their shared limit of `rate` a second.

    The last of n decisions in an interval must follow the first by at least n - 1 gaps.
    """
    gap_ns, found = int(SECOND / rate), []
    ordered = sorted(decisions, key=lambda decision: decision.until_ns)
    for begin in sorted({decision.after_ns for decision in ordered} - {0}):
        within = [decision.until_ns for decision in ordered if decision.after_ns >= begin]
        found += [
            f"{number + 1} in {until - begin} ns"
            for number, until in enumerate(within)
            if until - begin < number * gap_ns
        ]
    return found


def prefix_of(ip: str) -> str:
    """Return the network that shares a limit with an address: its /24 or /48."""
    length = 24 if ipaddress.ip_address(ip).version == 4 else 48
    return str(ipaddress.ip_network((ip, length), strict=False))


def _hash_of_prefix(ip: str) -> int:
    """Return FNV-1a of the octets of the prefix, folded to 32 bits."""
    found = 0xCBF29CE484222325
    for octet in ipaddress.ip_network(prefix_of(ip)).network_address.packed:
        found = (found ^ octet) * 0x100000001B3 % 2**64
    return (found ^ found >> 32) % 2**32
