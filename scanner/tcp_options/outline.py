"""The tcp_options stage's part of the dry run."""

from __future__ import annotations

from firstflight.run.outline import Known, Outline, Traffic, sampled_targets, sampling_text
from firstflight.settings import Settings, Vantage

# Maximum segments in a connection (SYNs, ACK and reset), and the size of IPv6 header, TCP header and options.
SEGMENTS, SEGMENT_BYTES = 4 + 2, 40 + 40


def outline(settings: Settings, known: Known, vantage: Vantage | None) -> Outline:  # noqa: ARG001
    """Return the maximum number of TCP connections and their traffic."""
    survey = settings.tcp_options
    line = (
        f"TCP options: {sampling_text(survey, known.names)}, a TCP connection to port {survey.port} each; "
        f"at most {survey.rate:g} per second and vantage point"
    )
    sections = ("tcp_options",)
    if known.names is None:
        return Outline((line,), sections=sections)
    targets = sampled_targets(survey, settings, known.names)
    segments = SEGMENTS * survey.attempts
    per_target = Traffic(segments, segments * SEGMENT_BYTES, segments * SEGMENT_BYTES)
    seconds = targets / survey.rate + survey.timeout_s
    return Outline((line,), traffic=per_target.times(targets), seconds=seconds, sections=sections)
