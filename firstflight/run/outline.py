"""Upper limits for a stage, computed from the settings only: its part in a dry run.

Each stage has a function `outline(settings, known, vantage)` that returns an `Outline`. The table of stages
(`orchestration.stages`) refers to it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from firstflight.settings import SampledNames, Settings

IPV6_UDP_BYTES = 48
"""Size of an IPv6 header and a UDP header (RFC 8200, RFC 768)."""
SEGMENT_BYTES, ACK_BYTES = 1400, 80
"""Payload in a full TCP segment or QUIC packet, and size of a packet that only acknowledges."""
# A header of 12 bytes, a question with a name of 25 characters, and EDNS (RFC 1035 4.1, RFC 6891 6.1.2).
_QUERY_BYTES = IPV6_UDP_BYTES + 12 + 29 + 11
# The largest answer over UDP that the engine accepts.
_ANSWER_BYTES = IPV6_UDP_BYTES + 1232


@dataclass(frozen=True)
class Known:
    """Facts known before the run fetches data: maximum numbers of names and CDNs. `None`: unknown."""

    names: int | None = None
    cdns: int | None = None


@dataclass(frozen=True)
class Traffic:
    """Upper limits: packets sent, and bytes in both directions including IP headers."""

    packets: int
    sent_bytes: int
    received_bytes: int

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(
            self.packets + other.packets,
            self.sent_bytes + other.sent_bytes,
            self.received_bytes + other.received_bytes,
        )

    def times(self, count: int) -> Traffic:
        """Return the traffic of `count` such contacts."""
        return Traffic(self.packets * count, self.sent_bytes * count, self.received_bytes * count)


NOTHING = Traffic(0, 0, 0)


@dataclass(frozen=True)
class Outline:
    """A stage's work, once (at the centre) or in one repetition (at a vantage point).

    `lines`: sentences, the same for all vantage points. `pace` and `count`: rate and number of operations at
    the vantage point, as text. `traffic` and `seconds`: upper limits, if no limit delays the stage; `None`:
    unknown, with the reason in `unknown`. `sections`: sections of the settings that change the stage's
    packets. `known`: facts for later stages.
    """

    lines: tuple[str, ...] = ()
    pace: str | None = None
    count: str | None = None
    traffic: Traffic | None = None
    seconds: float | None = None
    unknown: str = "the number of names is unknown before the list is fetched"
    sections: tuple[str, ...] = ()
    known: Known = field(default_factory=Known)


def download_traffic(requests: int, received_bytes: int) -> Traffic:
    """Return the traffic of downloads: a packet per request, and an acknowledgement per received packet."""
    packets = math.ceil(received_bytes / SEGMENT_BYTES)
    # The handshake and the close need a few more packets.
    setup_packets = 10 * requests
    sent = requests * SEGMENT_BYTES + (packets + setup_packets) * ACK_BYTES
    return Traffic(requests + packets + setup_packets, sent, received_bytes + packets * ACK_BYTES)


def queries(count: int) -> Traffic:
    """Return the traffic of `count` DNS queries. Each attempt is a query."""
    return Traffic(count, count * _QUERY_BYTES, count * _ANSWER_BYTES)


def sampled_names(sample: SampledNames, names: int) -> int:
    """Return the approximate maximum number of sampled names. The sample is random."""
    share = math.ceil(names * sample.share)
    return share if sample.limit is None else min(share, sample.limit)


def sampled_targets(sample: SampledNames, settings: Settings, names: int) -> int:
    """Return the approximate maximum number of targets: addresses of sampled names, and sampled addresses."""
    named = sampled_names(sample, names) * len(settings.probe.families)
    return named + sampled_names(sample, settings.scan.addresses)


def sampling_text(sample: SampledNames, names: int | None) -> str:
    """Describe the names that a sampling stage contacts, as text."""
    limit = "" if names is None else f", at most {sampled_names(sample, names)}"
    networks = f" with addresses of {', '.join(sample.cdn)}" if sample.cdn else ""
    return f"with {sample.share * 100:g} % of the names{networks}{limit}"


def limit_words(rate: float) -> str:
    """Describe a limit per second as text; 0 means no limit."""
    return f"{rate:g}/s" if rate else "no limit"
