"""The numbers by which runs sample names.

The numbers depend only on the run's seed and the name. So all repetitions, vantage points and shards sample
the same names.
"""

from __future__ import annotations

from hashlib import blake2b


def number(seed: int, name: str) -> int:
    """Return a number for a name, from 0 to 2^64 - 1: evenly distributed, and different for each seed."""
    key = seed.to_bytes(8, "big")
    return int.from_bytes(blake2b(name.encode(), digest_size=8, key=key).digest(), "big")
