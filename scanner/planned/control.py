"""Probes control names every minute during a campaign, as a baseline for the answers of their networks."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from firstflight.as_map import Mapper
from firstflight.layout import StageKey
from firstflight.run.provenance import tool_version
from firstflight.run.run import Run
from scanner.driver.feed import Feed
from scanner.planned import records as planned_records
from scanner.planned.probes import Feeder, plan, read_log, series
from scanner.resolver.configured import configured_resolver, lists_for
from scanner.resolver.names import Name

RECORDS = "watch_slot.parquet"
LIST_ID = "control"

# Share of the interval that a control probe may wait for the vantage point's turn
# (firstflight/egress/shared_limits.py) and for its address's rate limit.
GRACE_SHARE = 0.9


class Controls:
    """Feeds the settings' control names to a probe stage's prober. Does nothing without control names.

    A context manager. Names are resolved once, on entry.
    """

    def __init__(self, run: Run, key: StageKey, feed: Feed, mapper: Mapper) -> None:
        self._run, self._key = run, key
        self._feed, self._mapper = feed, mapper
        self._feeder: Feeder | None = None

    def __enter__(self) -> Self:
        settings = self._run.settings
        names = settings.backoff.control
        # Only one process at a vantage point probes them, so more shards do not cause more probes.
        if not names or not settings.backoff.enabled or self._key.shard.index:
            return self
        # Imported here, because only few runs have such names, and dnspython imports aioquic and trio.
        from scanner.resolver.addresses import Addresses

        families = settings.probe.families
        resolver = configured_resolver(settings.resolve)
        common = {
            **self._key.columns(),
            "resolver": resolver.label,
            "tool_version": tool_version(),
        }
        addresses = Addresses(
            [Name(None, name, LIST_ID) for name in names],
            families,
            resolver,
            settings.resolve,
            lists_for(resolver, settings),
            common,
        )
        addresses.resolve()
        folder = self._run.layout.stage("probe", self._key)
        log = folder / planned_records.LOG
        # A resumed stage continues the numbering, because each number identifies one probe.
        first = 1 + max((entry["slot"] for entry in read_log(log)), default=-1)
        every_s = settings.backoff.control_every_s
        vantage = (settings.index_of(self._key.vantage), len(settings.vantage))
        all_series = series("control", names, families, every_s, vantage)
        self._feeder = Feeder(
            self._feed,
            log,
            plan(all_series, time.time_ns(), first=first),
            address=addresses.of,
            asn_of=self._mapper.asn,
            grace_ms=lambda _: int(GRACE_SHARE * every_s * 1000),
            port=settings.probe.port,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._feeder is not None:
            self._feeder.close()

    def tick(self, now_ns: int) -> None:
        """Feed the probes that are due soon."""
        if self._feeder is not None:
            self._feeder.tick(now_ns)
        else:
            self._feed.flush()


def write_slots(
    folder: Path, probed: dict[int, dict[str, Any]], common: dict[str, Any], mapper: Mapper
) -> Path | None:
    """Write the watch_slot records for a probe stage's control names. Return `None` without such names."""
    fed = list(planned_records.feeder_log(folder))
    if not fed:
        return None
    origin: Callable[[str], tuple[int | None, str | None]] = mapper.origin
    table: pa.Table = planned_records.build(folder, fed, probed, common, origin, "stopped")
    planned_records.write(table, folder / RECORDS)
    return folder / RECORDS
