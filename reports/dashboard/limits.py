"""Limits of the dashboard: of each question, and per client."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address

from firstflight.system.memory import usable_bytes
from store.base import QueryLimits

_GIB = 1 << 30
# Never above the role's own limit, which the engine would refuse.
_MEMORY = min(_GIB, usable_bytes() // 4)
OWN = QueryLimits(seconds=60, memory_bytes=_MEMORY, rows=1_000_000, result_bytes=256 << 20)
"""For clients on this machine."""
PUBLIC = QueryLimits(seconds=10, memory_bytes=_MEMORY // 2, rows=100_000, result_bytes=32 << 20)
"""For anybody (`--public`)."""

_MOST_CLIENTS = 10_000
_MIB = 1 << 20


@dataclass
class _Bucket:
    tokens: float
    at: float


class ClientRate:
    """Token buckets, one per client: a burst of `burst` tokens, and `per_second` in the long run."""

    def __init__(self, per_second: float, burst: float) -> None:
        self._per_second = per_second
        self._burst = burst
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def wait_s(self, client: str, now: float) -> float:
        """Take a token of `client` and return 0, or return the seconds until a token is available.

        `now` is in seconds of any monotonic clock. IPv6 clients share the bucket of their /64. The clients
        that asked least recently are forgotten first, so memory is bounded.
        """
        bucket = self._filled(client, now)
        if bucket.tokens < 1:
            return (1 - bucket.tokens) / self._per_second
        bucket.tokens -= 1
        return 0

    def charge(self, client: str, now: float, tokens: float) -> None:
        """Take `tokens` of `client` for a cost that is known afterwards; the balance may become negative."""
        self._filled(client, now).tokens -= tokens

    def owed_s(self, client: str, now: float) -> float:
        """Return the seconds until `client` owes no tokens; 0 if the balance is not negative."""
        return max(0.0, -self._filled(client, now).tokens / self._per_second)

    def _filled(self, client: str, now: float) -> _Bucket:
        key = client_key(client)
        bucket = self._buckets.setdefault(key, _Bucket(self._burst, now))
        self._buckets.move_to_end(key)
        if len(self._buckets) > _MOST_CLIENTS:
            self._buckets.popitem(last=False)
        bucket.tokens = min(self._burst, bucket.tokens + (now - bucket.at) * self._per_second)
        bucket.at = now
        return bucket


class Allowances:
    """The limits for a client of a public dashboard: requests, seconds of the store, bytes of answers."""

    def __init__(self) -> None:
        self.requests = ClientRate(per_second=2, burst=30)
        self.store_s = ClientRate(per_second=0.25, burst=60)
        self.bytes = ClientRate(per_second=1 * _MIB, burst=64 * _MIB)


def client_key(client: str) -> str:
    """Return a client's key: its IPv4 address, or the /64 network that contains its IPv6 address."""
    try:
        address = ip_address(client.partition("%")[0])
    except ValueError:
        return client
    if not isinstance(address, IPv6Address):
        return str(address)
    return str(address.ipv4_mapped or int(address) >> 64)
