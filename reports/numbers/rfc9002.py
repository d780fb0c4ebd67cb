"""A client's probe timeout (RFC 9002), and the effect of an instant ACK on it.

Times are in microseconds. The probe timeout (PTO) is the one of the Initial and Handshake spaces, before
back-off: it excludes max_ack_delay (RFC 9002 6.2.1), and samples are not reduced by ACK Delay (5.3).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

GRANULARITY_US = 1000.0
"""kGranularity, the value that the RFC recommends (6.1.2)."""


def pto_series(samples_us: Iterable[float]) -> Iterator[float]:
    """Yield the PTO after each RTT sample (RFC 9002 5.3 and 6.2.1)."""
    smoothed = variation = 0.0
    for number, sample in enumerate(samples_us):
        if number == 0:
            smoothed, variation = sample, sample / 2
        else:
            variation = 0.75 * variation + 0.25 * abs(smoothed - sample)
            smoothed = 0.875 * smoothed + 0.125 * sample
        yield smoothed + max(4 * variation, GRANULARITY_US)


def first_pto(rtt_us: float) -> float:
    """Return the PTO after a first sample: 3 RTT from 0.5 ms on, RTT + 1 ms below."""
    return next(pto_series([rtt_us]))


def evolution(rtt_us: float, delta_us: float, samples: int) -> tuple[list[float], list[float]]:
    """Return the PTO after each of `samples` samples, with and without an instant ACK.

    Without an instant ACK, the first sample is longer than one RTT by `delta_us`. All other samples are one
    RTT.
    """
    later = [rtt_us] * (samples - 1)
    return list(pto_series([rtt_us, *later])), list(pto_series([rtt_us + delta_us, *later]))


def improvement(rtt_us: float, delta_us: float) -> float:
    """Return by how many RTTs an instant ACK shortens the first PTO, by RFC 9002."""
    return (first_pto(rtt_us + delta_us) - first_pto(rtt_us)) / rtt_us


def paper_improvement(rtt_us: float, delta_us: float) -> float:
    """Return the same by the paper's rule PTO = 3 RTT: 3 delta / RTT (IMC 2024, Figure 4)."""
    return 3 * delta_us / rtt_us


PAPER_SPURIOUS = 9.0
"""Improvement, in RTTs, from which delta is 3 RTT or more: the PTO expires before the ServerHello arrives."""


def spurious_improvement(rtt_us: float) -> float:
    """Return the same limit by RFC 9002: the improvement when delta equals the first PTO."""
    return improvement(rtt_us, first_pto(rtt_us))
