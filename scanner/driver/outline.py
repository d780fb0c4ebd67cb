"""Upper limits of the traffic between an engine and a server per contact, for dry runs."""

from __future__ import annotations

from firstflight.run.outline import ACK_BYTES, IPV6_UDP_BYTES, SEGMENT_BYTES, Traffic
from firstflight.settings import Handshake, Probe

# Default UDP payload of an Initial: the larger of the two families.
INITIAL_BYTES = 1252
# An Initial, an Initial with a Retry's token, and a close.
DATAGRAMS_PER_CONNECTION = 3
# Before address validation, a server sends at most three times the bytes received (RFC 9000 8.1).
AMPLIFICATION = 3
# A complete handshake with one HEAD request. Chains have a few kilobytes, header sections at most 64 KiB.
HANDSHAKE_DATAGRAMS, HANDSHAKE_BYTES = 20, 64 << 10


def probe_traffic(probe: Probe, attempts: int) -> Traffic:
    """Return the traffic of a probe with this number of connections.

    Listening sends no packets. A server that retransmits stays within the same factor.
    """
    size = max((*probe.initial_sizes, probe.initial_size or INITIAL_BYTES)) + IPV6_UDP_BYTES
    datagrams = attempts * DATAGRAMS_PER_CONNECTION
    return Traffic(datagrams, datagrams * size, AMPLIFICATION * datagrams * size)


def handshake_traffic(handshake: Handshake) -> Traffic:
    """Return the maximum traffic of a handshake with one target (usually much less). `second` doubles it."""
    full_bytes, short = 4 * (INITIAL_BYTES + IPV6_UDP_BYTES), HANDSHAKE_DATAGRAMS - 4
    segments = HANDSHAKE_BYTES // SEGMENT_BYTES
    single = Traffic(
        HANDSHAKE_DATAGRAMS + segments, full_bytes + (short + segments) * ACK_BYTES, HANDSHAKE_BYTES
    )
    return single.times(2 if handshake.second else 1)
