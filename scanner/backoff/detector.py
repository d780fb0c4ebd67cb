"""Decides when to pause an AS: compares its current share of timeouts or Retries with its first minutes.

Pure computation on probe outcomes. `scanner/backoff/controller.py` acts on the result. docs/ethics.md
describes the rule.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from firstflight.settings import Backoff

Sign = Literal["timeout", "retry"]
SIGNS: tuple[Sign, ...] = ("timeout", "retry")
SECOND_NS = 10**9

# Significance level: the largest p-value at which the share has risen.
CHANCE = 0.01


@dataclass(frozen=True)
class PauseVerdict:
    """An AS with a risen share of `sign`.

    `baseline` and `window` are (probes with the sign, all probes), for the AS's first minutes and for the
    time since `since_ns`.
    """

    asn: int
    sign: Sign
    baseline: tuple[int, int]
    window: tuple[int, int]
    since_ns: int

    def __str__(self) -> str:
        event = "no answer" if self.sign == "timeout" else "Retry"
        return (
            f"AS{self.asn}: {event} to {self.window[0]} of {self.window[1]} probes, after "
            f"{self.baseline[0]} of {self.baseline[1]} in its first minutes"
        )


class _Tally:
    """Numbers of probes by sign."""

    __slots__ = ("probes", "retries", "timeouts")

    def __init__(self) -> None:
        self.probes = self.timeouts = self.retries = 0

    def of(self, sign: Sign) -> tuple[int, int]:
        return (self.timeouts if sign == "timeout" else self.retries), self.probes


class _Network:
    """Probes to an AS: the first probes' numbers, and the probes in the window.

    A probe in the window is an integer, sorted by time: 4 x its nanoseconds, plus 2 for a timeout, plus 1 for
    a Retry.
    """

    __slots__ = ("baseline", "baseline_until_ns", "newest_ns", "tally", "window")

    def __init__(self, baseline_until_ns: int) -> None:
        self.baseline_until_ns = baseline_until_ns
        self.baseline = _Tally()
        self.window: list[int] = []
        self.tally = _Tally()
        self.newest_ns = 0

    def slide(self, oldest_ns: int) -> None:
        """Remove the probes sent at or before `oldest_ns` from the window."""
        end = bisect_right(self.window, oldest_ns << 2 | 3)
        for probe in self.window[:end]:
            self.tally.timeouts -= probe >> 1 & 1
            self.tally.retries -= probe & 1
        self.tally.probes -= end
        del self.window[:end]

    def clear(self) -> None:
        """Empty the window."""
        self.window.clear()
        self.tally = _Tally()


class Detector:
    """Collects probe outcomes per AS and reports which ASes to pause."""

    def __init__(self, settings: Backoff) -> None:
        self._settings = settings
        self._baseline_ns = settings.baseline_s * SECOND_NS
        self._window_ns = settings.window_s * SECOND_NS
        self._networks: dict[int, _Network] = {}
        self._updated: set[int] = set()
        self._not_before: dict[int, int] = {}

    def add(self, asn: int, sent_ns: int, timeout: bool, retry: bool) -> None:
        """Add a probe sent to `asn`: when it was sent, and whether it timed out or received a Retry."""
        network = self._networks.get(asn)
        if network is None:
            network = self._networks[asn] = _Network(math.ceil(sent_ns + self._baseline_ns))
        if sent_ns < network.baseline_until_ns or network.baseline.probes < self._settings.least_probes:
            tally = network.baseline
        elif sent_ns < self._not_before.get(asn, 0):
            return
        else:
            tally = network.tally
            insort(network.window, sent_ns << 2 | timeout << 1 | retry)
            network.newest_ns = max(network.newest_ns, sent_ns)
            self._updated.add(asn)
        tally.probes += 1
        tally.timeouts += timeout
        tally.retries += retry

    def restart_window(self, asn: int, since_ns: int) -> None:
        """Restart the window of an AS at `since_ns`, after a pause. Keep the baseline."""
        self._not_before[asn] = since_ns
        if asn in self._networks:
            self._networks[asn].clear()

    def verdicts(self) -> Iterator[PauseVerdict]:
        """Yield a verdict for each AS with new outcomes since the last call and a risen share."""
        updated, self._updated = self._updated, set()
        for asn in sorted(updated):
            verdict = self._verdict(asn, self._networks[asn])
            if verdict is not None:
                yield verdict

    def _verdict(self, asn: int, network: _Network) -> PauseVerdict | None:
        # Probes finish out of order, because an answer arrives sooner than a timeout.
        network.slide(math.floor(network.newest_ns - self._window_ns))
        if network.tally.probes < self._settings.least_probes:
            return None
        for sign in SIGNS:
            baseline, window = network.baseline.of(sign), network.tally.of(sign)
            if self._has_risen(baseline, window):
                return PauseVerdict(asn, sign, baseline, window, network.window[0] >> 2)
        return None

    def _has_risen(self, baseline: tuple[int, int], window: tuple[int, int]) -> bool:
        """Whether the share is at least `factor` times as high, not small, and significantly higher."""
        share_before, share_now = baseline[0] / baseline[1], window[0] / window[1]
        return (
            share_now >= self._settings.factor * share_before
            and share_now >= self._settings.least_share
            and fisher(baseline, window) < CHANCE
        )


def fisher(baseline: tuple[int, int], window: tuple[int, int]) -> float:
    """Return the one-sided p-value of Fisher's exact test that the share of hits in `window` is higher.

    Both arguments are (hits, tries). Sums the tail of the hypergeometric distribution, using logarithms of
    factorials.
    """
    (hits_before, tries_before), (hits, tries) = baseline, window
    all_hits = hits_before + hits
    log_total = _log_choose(tries_before + tries, all_hits)
    return sum(
        math.exp(_log_choose(tries, count) + _log_choose(tries_before, all_hits - count) - log_total)
        for count in range(hits, min(tries, all_hits) + 1)
    )


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
