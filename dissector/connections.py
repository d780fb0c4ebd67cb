"""How many connections of a run's captures the dissector keeps at a time, and how long."""

from __future__ import annotations

import math

from firstflight.settings import Settings

# The dissector takes some 220 MB with as many.
MOST_CONNECTIONS = 90_000


def kept(settings: Settings) -> list[tuple[str, object]]:
    """Return the dissector's options that say which connections of a capture are kept, and how long."""
    probe = settings.probe
    # A connection is kept longer than its probe waits for answers and listens: for late packets.
    window_s = probe.timeout_s + probe.settle_ms / 1000
    idle_s = math.ceil(window_s + (probe.listen_s or 0)) + 5
    rate = max(settings.rate_at(vantage) for vantage in settings.vantage)
    return [
        ("--quic-port", probe.port),
        ("--answer-window-ms", round(probe.timeout_s * 1000)),
        ("--settle-ms", probe.settle_ms),
        ("--idle-s", idle_s),
        ("--max-connections", _most_connections(rate * probe.attempts, window_s, idle_s)),
        ("--max-decided", MOST_CONNECTIONS),
    ]


def _most_connections(rate: float, window_s: float, idle_s: float) -> int:
    """Return how many connections the dissector keeps, of which up to `rate` begin in a second.

    All that are in the answer window at a time; beyond them as many as memory allows, of those that may still
    get late packets.
    """
    in_window, concurrent = (math.ceil(rate * seconds) for seconds in (window_s + 0.5, 2 * idle_s))
    return max(in_window, min(concurrent, MOST_CONNECTIONS))
