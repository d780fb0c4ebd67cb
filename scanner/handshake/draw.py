"""Draws the share of the names with which the handshake stage connects.

A name is drawn by a hash of the run's seed and the name alone, so it is drawn in every repetition, at every
vantage point and in whichever shard, as long as it has an address there.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from firstflight.as_map import Mapper
from firstflight.errors import UsageError
from firstflight.settings import Handshake
from firstflight.shard import Shard

_ALL = 1 << 64

Numbers = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]


def number(seed: int, name: str) -> int:
    """Return the number of a name, from 0 to 2^64 - 1: evenly spread, and different for each seed."""
    key = seed.to_bytes(8, "big")
    return int.from_bytes(blake2b(name.encode(), digest_size=8, key=key).digest(), "big")


def drawn(plan: pa.Table, settings: Handshake, seed: int, mapper: Mapper, shard: Shard) -> Mask:
    """Return which rows of a plan (scanner.driver.choose) are of names to connect with.

    Of the names with an address of `settings.cdn`, `settings.share` by their numbers, and of these the
    `settings.limit` with the smallest numbers; a shard has its part of the limit. UsageError for a CDN that
    the CDN map does not have.
    """
    unknown = sorted(set(settings.cdn) - mapper.cdns)
    if unknown:
        raise UsageError(
            f"handshake.cdn names {unknown[0]}, which the CDN map does not have; it has "
            f"{', '.join(sorted(mapper.cdns))}"
        )
    numbers = _numbers(plan, seed)
    wanted = numbers < np.uint64(int(settings.share * _ALL)) if settings.share < 1 else numbers >= 0
    if settings.cdn:
        wanted &= _of_cdns(plan, wanted, frozenset(settings.cdn), mapper)
    if settings.limit is not None:
        most = settings.limit * (shard.index + 1) // shard.of - settings.limit * shard.index // shard.of
        wanted &= np.isin(numbers, np.unique(numbers[wanted])[:most])
    return wanted


def _numbers(plan: pa.Table, seed: int) -> Numbers:
    found = np.empty(plan.num_rows, np.uint64)
    begin = 0
    for batch in plan.select(["domain"]).to_batches():
        names = (number(seed, name) for name in batch.column(0).to_pylist())
        found[begin : begin + batch.num_rows] = np.fromiter(names, np.uint64, batch.num_rows)
        begin += batch.num_rows
    return found


def _of_cdns(plan: pa.Table, among: Mask, cdns: frozenset[str], mapper: Mapper) -> Mask:
    """Return which of the rows `among` have an address of these CDNs."""
    places = np.flatnonzero(among)
    ips = plan["ip"].take(pa.array(places)).to_pylist()
    found = np.zeros(plan.num_rows, dtype=bool)
    found[places] = [mapper.origin(ip).cdn in cdns for ip in ips]
    return found
