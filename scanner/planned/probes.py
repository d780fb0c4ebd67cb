"""Plans probes on a fixed grid of UTC, feeds them to the prober, and logs each probe.

A name's probes are `interval` apart, aligned to multiples of the interval since 1970. Names and vantage
points are spread evenly over the interval, so neither one vantage point nor all together send bursts. Times
do not depend on earlier probes, so they do not drift.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from firstflight.errors import InputError
from firstflight.system import files
from scanner.driver.feed import FIRST_SLOT, Feed

Purpose = Literal["watch", "owned", "control"]
SECOND_NS = 10**9

# How long before its time a planned probe is submitted to the prober.
AHEAD_NS = 2 * SECOND_NS


@dataclass(frozen=True)
class ProbeSeries:
    """A name that is probed every `interval_ns`; series `index` of `count` that share the interval."""

    purpose: Purpose
    domain: str
    family: int
    interval_ns: int
    index: int
    count: int

    def times(self, start_ns: int) -> Iterator[int]:
        """Yield planned times (UTC, ns) from `start_ns` on, without end."""
        offset = self.interval_ns * self.index // self.count
        first = -(-(start_ns - offset) // self.interval_ns)
        while True:
            yield first * self.interval_ns + offset
            first += 1


@dataclass(frozen=True)
class PlannedProbe:
    """One planned probe. `number` counts from 0."""

    number: int
    planned_ns: int
    series: ProbeSeries


def series(
    purpose: Purpose,
    names: Sequence[str],
    families: Sequence[int],
    interval_s: float,
    vantage: tuple[int, int],
) -> list[ProbeSeries]:
    """Return the series of `names` at vantage point number `vantage[0]` of `vantage[1]`."""
    pairs = [(name, family) for name in names for family in families]
    vantage_index, vantages = vantage
    return [
        ProbeSeries(
            purpose,
            name,
            family,
            round(interval_s * SECOND_NS),
            n * vantages + vantage_index,
            max(1, len(pairs) * vantages),
        )
        for n, (name, family) in enumerate(pairs)
    ]


def plan(
    all_series: Sequence[ProbeSeries], start_ns: int, end_ns: int | None = None, first: int = 0
) -> Iterator[PlannedProbe]:
    """Yield the probes of several series in time order, from `start_ns` to before `end_ns` (or endlessly)."""

    def timed(index: int, series: ProbeSeries) -> Iterator[tuple[int, int]]:
        for planned in series.times(start_ns):
            if end_ns is not None and planned >= end_ns:
                return
            yield planned, index

    merged = heapq.merge(*(timed(index, series) for index, series in enumerate(all_series)))
    for number, (planned, index) in enumerate(merged, start=first):
        yield PlannedProbe(number, planned, all_series[index])


class Feeder:
    """Submits planned probes to the prober shortly before their time. Logs each as a JSON line in `log`."""

    def __init__(
        self,
        feed: Feed,
        log: Path,
        probes: Iterator[PlannedProbe],
        *,
        address: Callable[[str, int], str | None],
        asn_of: Callable[[str], int | None],
        grace_ms: Callable[[PlannedProbe], int],
        port: int,
        reason_to_skip: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._reason_to_skip = reason_to_skip
        self._feed = feed
        self._probes = probes
        self._next: PlannedProbe | None = next(probes, None)
        self._end_sent = False
        self._address, self._asn_of, self._grace_ms, self._port = address, asn_of, grace_ms, port
        with files.explain_os_errors(log):
            self._log = log.open("a", encoding="utf-8")

    def tick(self, now_ns: int) -> None:
        """Submit the probes that are due soon. Send `end` after the last one."""
        while self._next is not None and self._next.planned_ns <= now_ns + AHEAD_NS:
            self._submit(self._next)
            self._next = next(self._probes, None)
        if self._next is None and not self._end_sent:
            self._end_sent = True
            self._feed.end()
        self._feed.flush()

    def close(self) -> None:
        """Close the log."""
        self._log.close()

    def _submit(self, probe: PlannedProbe) -> None:
        series = probe.series
        ip = self._address(series.domain, series.family)
        asn = None if ip is None else self._asn_of(ip)
        entry = {
            "slot": probe.number,
            "planned_ns": probe.planned_ns,
            "purpose": series.purpose,
            "domain": series.domain,
            "family": series.family,
            "ip": ip,
            "asn": asn,
        }
        reason = None if ip is None else self._reason_to_skip()
        if reason is not None:
            entry["skipped"] = reason
        # Logged first, so that the log has every probe that the prober receives.
        self._log.write(json.dumps(entry) + "\n")
        self._log.flush()
        if ip is not None and reason is None:
            self._feed.schedule(
                FIRST_SLOT + probe.number,
                probe.planned_ns,
                grace_ms=self._grace_ms(probe),
                owned=series.purpose == "owned",
                asn=asn,
                ip=ip,
                port=self._port,
                domain=series.domain,
            )


def read_log(path: Path) -> list[dict[str, Any]]:
    """Read a log of slots (the feeder's, or the prober's of skipped slots); empty if the file does not exist.

    Ignores a last line without a line feed, because its writer was killed. Raise InputError for another
    invalid line.
    """
    if not path.is_file():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")
    entries = []
    for number, line in enumerate(lines[:-1], start=1):
        try:
            entries.append(json.loads(line))
        except ValueError as error:
            # After a killed writer's partial line, the next writer's first entry is on the same line.
            if "{" not in line[1:]:
                raise InputError(f"{path}, line {number}, is not JSON: move the file away") from error
            entries.append(json.loads(line[line.rindex("{") :]))
    return entries
