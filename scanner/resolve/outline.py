"""The resolve stage's part of the dry run."""

from __future__ import annotations

import math

from firstflight.run.outline import Known, Outline, queries
from firstflight.settings import Resolve, Settings, Vantage
from scanner.resolver.answer import QTYPES


def outline(settings: Settings, known: Known, vantage: Vantage | None) -> Outline:  # noqa: ARG001
    """Return the maximum traffic to the resolvers: all types of each name, with all attempts."""
    resolve = settings.resolve
    total = _queries_per_second(resolve)
    pace = "queries without a limit" if math.isinf(total) else f"{total:g} queries per second"
    resolvers = ", ".join(resolve.resolvers) or (
        f"{resolve.resolver}#{resolve.port}" if resolve.resolver else "the first one of /etc/resolv.conf"
    )
    line = f"resolver: {resolvers}; {', '.join(QTYPES)} of each name, {resolve.attempts} attempts"
    sections = ("resolve",)
    if known.names is None:
        return Outline((line,), pace, sections=sections)
    traffic = queries(len(QTYPES) * known.names * resolve.attempts)
    seconds = len(QTYPES) * known.names / total
    return Outline((line,), pace, traffic=traffic, seconds=seconds, sections=sections)


def _queries_per_second(resolve: Resolve) -> float:
    rates = resolve.rates()
    return math.inf if None in rates else sum(rate for rate in rates if rate is not None)
