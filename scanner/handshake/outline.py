"""The handshake stage's part of the dry run."""

from __future__ import annotations

from firstflight.run.outline import Known, Outline, sampled_targets, sampling_text
from firstflight.settings import Settings, Vantage
from scanner.driver.outline import handshake_traffic


def outline(settings: Settings, known: Known, vantage: Vantage | None) -> Outline:  # noqa: ARG001
    """Return the maximum number of handshakes and their traffic."""
    handshake = settings.handshake
    line = (
        f"handshakes: {sampling_text(handshake, known.names)}, one HTTP/3 HEAD request of {handshake.path} "
        f"each; at most {handshake.rate:g} per second and vantage point"
    )
    sections = ("handshake",)
    if known.names is None:
        return Outline((line,), sections=sections)
    targets = sampled_targets(handshake, settings, known.names)
    connections = 2 if handshake.second else 1
    seconds = connections * targets / handshake.rate + connections * handshake.timeout_s
    return Outline(
        (line,), traffic=handshake_traffic(handshake).times(targets), seconds=seconds, sections=sections
    )
