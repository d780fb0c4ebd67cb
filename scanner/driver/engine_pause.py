"""The pause between two engines. A new engine does not know what the previous one sent."""

from __future__ import annotations

import time

from firstflight.errors import Interrupted
from firstflight.run.run import Run
from firstflight.settings import Settings
from firstflight.system.noted_signals import noted_signals

_LOOK_EVERY_S = 0.1


def pause_s(settings: Settings) -> float:
    """Return the seconds between two engines that limits below one per second require.

    Higher limits need no pause: stopping an engine and starting the next one is slow enough.
    """
    limits = (settings.probe.per_address_rate, settings.probe.per_prefix_rate)
    return max(1 / limit if 0 < limit < 1 else 0.0 for limit in limits)


def wait(run: Run, seconds: float, message: str) -> None:
    """Sleep. Raise Interrupted when the run is stopped or a signal arrives; `message` explains it."""
    end = time.monotonic() + seconds
    with noted_signals() as signalled:
        while (remaining_s := end - time.monotonic()) > 0:
            if signalled():
                raise Interrupted(f"stopped by a signal; {message}")
            run.check_not_stopped()
            time.sleep(min(remaining_s, _LOOK_EVERY_S))
