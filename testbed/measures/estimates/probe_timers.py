"""A client's probe timeouts and RTT samples, from the packets of a connection.

`packets` are rows of quic_packet in capture order, from a capture at the client. Times are in microseconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from testbed.measures import default_pto
from testbed.trials.captures.packets import Packet, is_eliciting

_ACK = re.compile(r"ack (\S+) delay (\d+)")
_EXPONENT = 3
"""ack_delay_exponent in Initial and Handshake packets (RFC 9000, 13.2.5)."""
_FLIGHT_US = 15_000
"""Packets with shorter gaps are one flight; a client's pacing makes gaps of up to 7 ms. Probes come later."""
_SHORTER = 2
"""A later sample is shorter if the first one is at least this multiple of it."""


@dataclass(frozen=True)
class Sample:
    """An RTT sample from an Initial packet: when its ACK arrived, its length, and the ACK Delay."""

    at_us: int
    rtt_us: int
    ack_delay_us: int


@dataclass(frozen=True)
class LaterTimer:
    """The timeout after the first shorter sample.

    `interval_us`: from the last probe before the sample to the next probe; `before_us`: from the timeout
    before that probe to the probe; `probes`: the timeouts that expired before; `samples`: all samples up to
    the shorter one.
    """

    interval_us: int
    before_us: int | None
    probes: int
    samples: tuple[int, ...]


def after_retry(packets: Sequence[Packet]) -> tuple[int, int] | None:
    """Return the time from the first Initial to the Retry, and from the second Initial to the client's probe.

    `None` without a Retry, or if another answer came before a probe.
    """
    places = [place for place, packet in enumerate(packets) if packet["type"] == "retry"]
    if not places:
        return None
    retried = packets[places[0]]["since_start_us"]
    following = [packet for packet in packets[places[0] :] if packet["type"] != "retry"]
    probe_us = default_pto.default_us(following)
    return None if probe_us is None else (retried, probe_us - following[0]["since_start_us"])


def repeated_after(packets: Sequence[Packet]) -> int | None:
    """Return the time from the end of the client's second flight to its next packet that elicits an ACK."""
    sent = [
        packet["since_start_us"]
        for packet in packets
        if packet["from_client"]
        and packet["type"] in ("handshake", "1rtt")
        and is_eliciting(packet["frames"])
    ]
    return next((new - old for old, new in pairwise(sent) if new - old > _FLIGHT_US), None)


def initial_samples(packets: Sequence[Packet]) -> Iterator[Sample]:
    """Yield the RTT samples (RFC 9002, 5.1) from the server's Initial packets."""
    sent: dict[int, Packet] = {}
    largest = -1
    for packet in packets:
        if packet["type"] != "initial":
            continue
        if packet["from_client"]:
            sent[packet["packet_number"]] = packet
            continue
        for numbers, delay in _ACK.findall(packet["frames"] or ""):
            newest = max(map(int, re.findall(r"\d+", numbers)))
            if newest > largest and newest in sent and is_eliciting(sent[newest]["frames"]):
                largest = newest
                rtt_us = packet["since_start_us"] - sent[newest]["since_start_us"]
                yield Sample(packet["since_start_us"], rtt_us, int(delay) << _EXPONENT)


def later_timer(packets: Sequence[Packet]) -> LaterTimer | None:
    """Return the timeout after the first sample that is much shorter than the first of all, if any."""
    samples = list(initial_samples(packets))
    place = next(
        (place for place, sample in enumerate(samples) if sample.rtt_us * _SHORTER <= samples[0].rtt_us), None
    )
    if place is None:
        return None
    sent = [
        packet["since_start_us"]
        for packet in packets
        if packet["from_client"] and packet["type"] == "initial" and is_eliciting(packet["frames"])
    ]
    flights = [[sent[0]]]
    for time in sent[1:]:
        if time - flights[-1][-1] <= _FLIGHT_US:
            flights[-1].append(time)
        else:
            flights.append([time])
    before = [flight for flight in flights if flight[0] < samples[place].at_us]
    after = [flight for flight in flights if flight[0] > samples[place].at_us]
    if not after:
        return None
    return LaterTimer(
        interval_us=after[0][0] - before[-1][-1],
        before_us=before[-1][0] - before[-2][-1] if len(before) > 1 else None,
        probes=len(before) - 1,
        samples=tuple(sample.rtt_us for sample in samples[: place + 1]),
    )
