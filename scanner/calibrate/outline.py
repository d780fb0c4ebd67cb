"""The calibrate stage's part of the dry run."""

from __future__ import annotations

import math

from firstflight.run.outline import Known, Outline, sampled_targets, sampling_text
from firstflight.settings import Settings, Vantage
from scanner.driver.outline import handshake_traffic, probe_traffic


def outline(settings: Settings, known: Known, vantage: Vantage | None) -> Outline:  # noqa: ARG001
    """Return the maximum number of pairs. A pair is a probe with one attempt and a handshake."""
    calibrate = settings.calibrate
    line = (
        f"pairs of a probe and a handshake: {sampling_text(calibrate, known.names)}, in blocks of "
        f"{calibrate.block}; at most {calibrate.rate:g} connections per second and vantage point"
    )
    sections = ("calibrate", "handshake")
    if known.names is None:
        return Outline((line,), sections=sections)
    pairs = sampled_targets(calibrate, settings, known.names)
    per_pair = probe_traffic(settings.probe, 1) + handshake_traffic(settings.handshake)
    return Outline(
        (line,), traffic=per_pair.times(pairs), seconds=_seconds(settings, pairs), sections=sections
    )


def _seconds(settings: Settings, pairs: int) -> float:
    """Return the duration of the pairs in seconds, if each step of each block has a silent server."""
    calibrate = settings.calibrate
    timeouts_s = 2 * (settings.probe.timeout_s + settings.handshake.timeout_s)
    blocks = math.ceil(pairs / calibrate.block)
    return 2 * pairs / calibrate.rate + blocks * (4 * calibrate.gap_s + timeouts_s)
