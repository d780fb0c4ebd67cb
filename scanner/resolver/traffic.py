"""Upper limits of the traffic with resolvers, for dry runs."""

from __future__ import annotations

from firstflight.run.outline import IPV6_UDP_BYTES, Traffic
from firstflight.settings import Resolve

# A header of 12 bytes, a question with a name of 25 characters, and EDNS (RFC 1035 4.1, RFC 6891 6.1.2).
QUERY_BYTES = IPV6_UDP_BYTES + 12 + 29 + 11
# The largest answer over UDP that the engine accepts.
ANSWER_BYTES = IPV6_UDP_BYTES + 1232


def queries(count: int, resolve: Resolve) -> Traffic:
    """Return the traffic of `count` queries, with all attempts that the settings allow."""
    highest = count * resolve.attempts
    return Traffic(highest, highest * QUERY_BYTES, highest * ANSWER_BYTES)
