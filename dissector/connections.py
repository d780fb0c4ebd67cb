"""The dissector's limits for a run: the number of live connections, and how long they are kept."""

from __future__ import annotations

import math

from firstflight.settings import Settings

# The dissector needs about 220 MB for this many.
MOST_CONNECTIONS = 90_000


def kept(settings: Settings) -> list[tuple[str, object]]:
    """Return the dissector's options for its ports, windows and limits of live connections."""
    probe = settings.probe
    # Late packets arrive after the probe has stopped waiting and listening, so keep the connection longer.
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
    """Return the limit of live connections if up to `rate` start per second.

    The limit covers all connections within the answer window. Connections that only wait for late packets are
    kept as far as memory allows.
    """
    in_window, concurrent = (math.ceil(rate * seconds) for seconds in (window_s + 0.5, 2 * idle_s))
    return max(in_window, min(concurrent, MOST_CONNECTIONS))
