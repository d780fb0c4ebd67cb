"""Whether engines that share limits keep them together, and take turns."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
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


class Decided(NamedTuple):
    """An engine's decision to probe: after `after_ns`, and at `until_ns` at the latest."""

    after_ns: int
    until_ns: int
    who: int
    ip: str


def decided(sent: Iterable[Sent]) -> list[Decided]:
    """Return when each probe was decided, whatever delayed engines and packets.

    An engine of fewer than 200 probes a second decides for one at a time: after the one before had left.
    """
    found, last = [], dict[int, int]()
    for probe in sorted(sent):
        found.append(Decided(last.get(probe.who, 0), probe.seen_ns, probe.who, probe.ip))
        last[probe.who] = max(last.get(probe.who, 0), probe.left_ns)
    return found


def too_dense(decisions: Sequence[Decided], rate: float) -> list[str]:
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


@dataclass(frozen=True)
class Turns:
    """Turns of `of` engines by design 0008: each `length_ns` long, with a pause of `pause_ns` at its end."""

    of: int
    length_ns: int
    pause_ns: int

    def allowed_from(self, who: int, ip: str, at_ns: int) -> int:
        """Return when engine `who` may probe the prefix of `ip`, from `at_ns` on (UTC)."""
        turn, begun_ns = divmod(at_ns, self.length_ns)
        wait = (who - turn - _hash_of_prefix(ip)) % self.of
        if wait == 0 and begun_ns < self.length_ns - self.pause_ns:
            return at_ns
        return (turn + (wait or self.of)) * self.length_ns

    def out_of_turn(self, decisions: Iterable[Decided], slack_ns: int) -> list[Decided]:
        """Return the decisions that were in no turn of their engine; clocks differ by at most `slack_ns`."""
        return [
            one
            for one in decisions
            if self.allowed_from(one.who, one.ip, one.after_ns - slack_ns) > one.until_ns + slack_ns
        ]


def turns(of: int, *rates: float, slack_s: float) -> Turns:
    """Return the turns of `of` engines with these limits a second (design 0008)."""
    pause_ns = int(SECOND / min(rates) + slack_s * SECOND)
    return Turns(of, 5 * pause_ns, pause_ns)


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
