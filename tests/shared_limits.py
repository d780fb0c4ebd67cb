"""Whether engines that share limits keep them together, and take turns."""

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
# Of both engines: together six seconds at 20 a second, several turns even if one engine starts seconds later.
EACH = 60


def check_turns(sent: list[tuple[int, int]], each: int) -> None:
    """Check what left, as (time in ns, engine 0 or 1), `each` of both, of engines that share 20 a second.

    Limit and slack (300 ms) hold for the times of the engines' decisions; stamps are somewhat later, which
    changes single gaps but not their median.
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
    """A probe of engine number `who`: it had not left before `left_ns`, and was seen under way at `seen_ns`.

    Both are times of packets (UTC), and may be the same one. 0: nothing says when it left.
    """

    seen_ns: int
    left_ns: int
    who: int
    ip: str

    def moved(self, seen_ns: int) -> Sent:
        """Return the same probe, seen at another time, at which it also left."""
        return self._replace(seen_ns=seen_ns, left_ns=seen_ns)


class Decided(NamedTuple):
    """An engine's decision to probe: after `after_ns`, and at `until_ns` at the latest."""

    after_ns: int
    until_ns: int
    who: int
    ip: str


@dataclass(frozen=True)
class Limits:
    """Limits (probes a second) that `of` engines keep together by turns; their clocks differ by `slack_s`.

    Design 0008 has the rule. All are checked by decisions, so nothing depends on what delays engines or
    packets: the engine's decision lies between two times of packets, and is only judged where that suffices.
    """

    of: int
    prefix_rate: float
    address_rate: float
    slack_s: float

    @property
    def pause_ns(self) -> int:
        """The pause at the end of a turn, a fifth of it."""
        return int((1 / min(self.prefix_rate, self.address_rate) + self.slack_s) * SECOND)

    def check(self, sent: Sequence[Sent], dense: Set[str] = frozenset({"prefix", "address"})) -> None:
        """Check that none is broken, and that each is found broken in the same probes with a fault.

        `dense`: the limits that have enough probes to be found broken by probes that are closer.
        """
        assert self.broken(sent) == {}
        closer = [one.moved(one.seen_ns // 4) for one in sent]
        assert self.broken(closer).keys() >= dense
        early = [one.moved(one.seen_ns - self.pause_ns) for one in sent]
        assert self.broken(early).keys() == {"turn"}
        others = [one._replace(who=(one.who + 1) % self.of) for one in sent]
        assert self.broken(others).keys() == {"turn"}
        assert self.broken(self.without_turns(sent)).keys() >= {"prefix", "turn"}

    def without_turns(self, sent: Sequence[Sent]) -> list[Sent]:
        """Return the same probes of engines that each have the whole limit of a prefix, at any time."""
        found, before = [], Counter[tuple[int, str]]()
        begun_ns = min(one.seen_ns for one in sent)
        for one in sorted(sent):
            place = one.who, prefix_of(one.ip)
            found.append(one.moved(begun_ns + int(before[place] * SECOND / self.prefix_rate)))
            before[place] += 1
        return found

    def broken(self, sent: Iterable[Sent]) -> dict[str, object]:
        """Return which limits the engines did not keep together, and where."""
        decisions = decided(sent)
        groups: dict[str, dict[str, list[Decided]]] = {"prefix": {}, "address": {}}
        for one in decisions:
            groups["prefix"].setdefault(prefix_of(one.ip), []).append(one)
            groups["address"].setdefault(one.ip, []).append(one)
        rates = {"prefix": self.prefix_rate, "address": self.address_rate}
        found: dict[str, object] = {
            name: [dense for group in groups[name].values() for dense in too_dense(group, rate)]
            for name, rate in rates.items()
        }
        slack_ns = int(self.slack_s * SECOND)
        found["turn"] = [
            one
            for one in decisions
            if self.allowed_from(one.who, one.ip, one.after_ns - slack_ns) > one.until_ns + slack_ns
        ]
        return {name: where for name, where in found.items() if where}

    def allowed_from(self, who: int, ip: str, at_ns: int) -> int:
        """Return when engine `who` may probe the prefix of `ip`, from `at_ns` on (UTC)."""
        length_ns = 5 * self.pause_ns
        turn, begun_ns = divmod(at_ns, length_ns)
        wait = (who - turn - _hash_of_prefix(ip)) % self.of
        if wait == 0 and begun_ns < length_ns - self.pause_ns:
            return at_ns
        return (turn + (wait or self.of)) * length_ns


def decided(sent: Iterable[Sent]) -> list[Decided]:
    """Return when each probe was decided.

    An engine decides for several prefixes at once, and sends them all before it decides again. So it decides
    for a prefix after the last probe to that prefix had left.
    """
    found, last = [], dict[tuple[int, str], int]()
    for probe in sorted(sent, key=lambda one: one.left_ns or one.seen_ns):
        place = probe.who, prefix_of(probe.ip)
        found.append(Decided(last.get(place, 0), probe.seen_ns, probe.who, probe.ip))
        last[place] = max(last.get(place, 0), probe.left_ns)
    return found


def too_dense(decisions: Iterable[Decided], rate: float) -> list[str]:
    """Return where decisions that share a limit of `rate` a second, of one engine or several, are too dense.

    Of n decisions within an interval the last is n - 1 gaps behind the first.
    """
    gap_ns, found = int(SECOND / rate), []
    ordered = sorted(decisions, key=lambda one: one.until_ns)
    for begin in sorted({one.after_ns for one in ordered} - {0}):
        within = [one.until_ns for one in ordered if one.after_ns >= begin]
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
