"""The pause between two engines: a new one knows nothing of what the last one sent."""

from __future__ import annotations

import time

from firstflight.errors import Interrupted
from firstflight.run.run import Run
from firstflight.settings import Settings
from firstflight.system.noted_signals import noted_signals

_LOOK_EVERY_S = 0.1


def pause_s(settings: Settings) -> float:
    """Return for how many seconds an engine has to wait for limits below one a second to hold.

    Limits of one a second and more hold by the time that an engine takes to end and the next to start.
    """
    limits = (settings.probe.per_address_rate, settings.probe.per_prefix_rate)
    return max(1 / limit if 0 < limit < 1 else 0.0 for limit in limits)


def wait(run: Run, seconds: float, kept: str) -> None:
    """Sleep; raises Interrupted as soon as the run is stopped or a signal comes, which `kept` explains."""
    end = time.monotonic() + seconds
    with noted_signals() as signalled:
        while (left := end - time.monotonic()) > 0:
            if signalled():
                raise Interrupted(f"stopped by a signal; {kept}")
            run.check_not_stopped()
            time.sleep(min(left, _LOOK_EVERY_S))
