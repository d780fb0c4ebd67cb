"""The watch stage's part of the dry run."""

from __future__ import annotations

import math
from collections.abc import Iterator

from firstflight.egress import shared_limits
from firstflight.run.outline import Known, Outline, queries
from firstflight.settings import Settings, Vantage
from scanner.driver.outline import probe_traffic

# Settings of [probe] that a watch ignores.
WITHOUT_EFFECT = (
    "initial_size",
    "initial_sizes",
    "listen_s",
    "ecn",
    "version",
    "all_addresses",
    "https_record",
)


def outline(settings: Settings, known: Known, vantage: Vantage | None) -> Outline:  # noqa: ARG001
    """Return the maximum number of probes in a period. UsageError if the watch would exceed a limit."""
    watch = settings.watch
    lines = [*_lines(settings, known)]
    sections = ("watch", "probe", "resolve", "backoff", "capture")
    if not known.names:
        return Outline(tuple(lines), sections=sections)
    shared_limits.check_watch(settings, known.names)
    per_minute = (known.names + len(watch.owned) * watch.owned_per_minute) * len(watch.families)
    slots = round(per_minute * watch.period_s / watch.minute_s)
    lines.append(f"at most {slots} slots a period and vantage point, one connection each")
    resolutions = math.ceil(watch.period_s / watch.resolve_every_s)
    questions = resolutions * (known.names + len(watch.owned)) * len(watch.families)
    traffic = probe_traffic(settings.probe, 1).times(slots) + queries(questions * settings.resolve.attempts)
    count = f"at most {slots} slots a period"
    return Outline(tuple(lines), None, count, traffic, watch.period_s, sections=sections)


def _lines(settings: Settings, known: Known) -> Iterator[str]:
    watch = settings.watch
    names = "" if known.names is None else f"at most {known.names} "
    yield f"once in {watch.minute_s:g} s: {names}names of the list"
    if watch.owned:
        yield (
            f"{watch.owned_per_minute} times in {watch.minute_s:g} s: {', '.join(watch.owned)} "
            f"(ownership: {watch.ownership})"
        )
    fields = type(settings.probe).model_fields
    ignored = [n for n in WITHOUT_EFFECT if getattr(settings.probe, n) != fields[n].default]
    if ignored:
        yield f"without effect in a watch: {', '.join(f'probe.{n}' for n in ignored)}"
    yield f"captures: {'every probe' if settings.capture.enabled else 'none, so no row has its packets'}"
