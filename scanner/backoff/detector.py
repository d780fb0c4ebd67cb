"""Decides when to pause an AS: compares its share of timeouts or Retries with that of its first minutes.

Pure computation on probe outcomes; `scanner/backoff/controller.py` acts on the result. docs/ethics.md states
the rule.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from firstflight.settings import Backoff

Sign = Literal["timeout", "retry"]
SIGNS: tuple[Sign, ...] = ("timeout", "retry")
SECOND_NS = 10**9

# Significance level: the largest p-value at which the share counts as risen.
CHANCE = 0.01


class SentProbe(NamedTuple):
    """One sent probe: when it was sent, and whether it timed out or received a Retry."""

    sent_ns: int
    timeout: bool
    retry: bool


@dataclass(frozen=True)
class Verdict:
    """An AS whose share of `sign` rose.

    `baseline` and `window` are (probes with the sign, all probes), in the AS's first minutes and from
    `since_ns` on.
    """

    asn: int
    sign: Sign
    baseline: tuple[int, int]
    window: tuple[int, int]
    since_ns: int

    def __str__(self) -> str:
        what = "no answer" if self.sign == "timeout" else "Retry"
        return (
            f"AS{self.asn}: {what} to {self.window[0]} of {self.window[1]} probes, after "
            f"{self.baseline[0]} of {self.baseline[1]} in its first minutes"
        )


@dataclass
class _Network:
    first_ns: int
    baseline: list[SentProbe] = field(default_factory=list)
    window: deque[SentProbe] = field(default_factory=deque)
    newest_ns: int = 0


class Detector:
    """Collects probe outcomes per AS and reports which ASes to pause."""

    def __init__(self, settings: Backoff) -> None:
        self._settings = settings
        self._networks: dict[int, _Network] = {}
        self._updated: set[int] = set()
        self._not_before: dict[int, int] = {}

    def add(self, asn: int, probe: SentProbe) -> None:
        """Add the outcome of a probe to `asn`."""
        network = self._networks.setdefault(asn, _Network(probe.sent_ns))
        settings = self._settings
        early = probe.sent_ns < network.first_ns + settings.baseline_s * SECOND_NS
        if early or len(network.baseline) < settings.least_probes:
            network.baseline.append(probe)
            return
        if probe.sent_ns < self._not_before.get(asn, 0):
            return
        network.window.append(probe)
        network.newest_ns = max(network.newest_ns, probe.sent_ns)
        self._updated.add(asn)

    def restart_window(self, asn: int, since_ns: int) -> None:
        """Restart the window of an AS at `since_ns`, after a pause; its baseline is kept."""
        self._not_before[asn] = since_ns
        if asn in self._networks:
            self._networks[asn].window.clear()

    def verdicts(self) -> Iterator[Verdict]:
        """Yield a verdict for each AS with new outcomes since the last call whose share rose."""
        updated, self._updated = self._updated, set()
        for asn in sorted(updated):
            verdict = self._verdict(asn, self._networks[asn])
            if verdict is not None:
                yield verdict

    def _verdict(self, asn: int, network: _Network) -> Verdict | None:
        oldest = network.newest_ns - self._settings.window_s * SECOND_NS
        # Probes end out of order (an answer sooner than a timeout), so all are checked.
        network.window = deque(probe for probe in network.window if probe.sent_ns > oldest)
        if len(network.window) < self._settings.least_probes:
            return None
        for sign in SIGNS:
            before = _count(network.baseline, sign), len(network.baseline)
            now = _count(network.window, sign), len(network.window)
            if self._has_risen(before, now):
                return Verdict(asn, sign, before, now, min(probe.sent_ns for probe in network.window))
        return None

    def _has_risen(self, before: tuple[int, int], now: tuple[int, int]) -> bool:
        """Whether the share is `factor` times as high, not small, and significantly higher than before."""
        share_before, share_now = before[0] / before[1], now[0] / now[1]
        return (
            share_now >= self._settings.factor * share_before
            and share_now >= self._settings.least_share
            and fisher(before, now) < CHANCE
        )


def fisher(before: tuple[int, int], now: tuple[int, int]) -> float:
    """Return the one-sided p-value of Fisher's exact test that the share of hits in `now` is higher.

    Both are (hits, tries). Sums the tail of the hypergeometric distribution, by logarithms of factorials.
    """
    (hits_before, tries_before), (hits, tries) = before, now
    all_hits = hits_before + hits
    whole = _log_choose(tries_before + tries, all_hits)
    return sum(
        math.exp(_log_choose(tries, x) + _log_choose(tries_before, all_hits - x) - whole)
        for x in range(hits, min(tries, all_hits) + 1)
    )


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _count(probes: deque[SentProbe] | list[SentProbe], sign: Sign) -> int:
    return sum(1 for probe in probes if getattr(probe, sign))
