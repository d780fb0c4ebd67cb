"""Draws the share of the names that a stage contacts beside the probes.

A name is drawn by a hash of the run's seed and the name alone, so it is drawn in every repetition, at every
vantage point and in whichever shard, as long as it has an address there.
"""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from firstflight.as_map import Mapper
from firstflight.errors import InputError, UsageError
from firstflight.layout import StageKey
from firstflight.run.run import Run
from firstflight.settings import Drawn
from firstflight.shard import Shard
from scanner.driver import choose
from scanner.driver.mapped import rows_at

_ALL = 1 << 64

Numbers = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]


def number(seed: int, name: str) -> int:
    """Return the number of a name, from 0 to 2^64 - 1: evenly spread, and different for each seed."""
    key = seed.to_bytes(8, "big")
    return int.from_bytes(blake2b(name.encode(), digest_size=8, key=key).digest(), "big")


def plan(run: Run, key: StageKey, section: str, mapper: Mapper, scratch: Path) -> pa.Table:
    """Return the addresses that the probe stage of `key` has, of the names alone that `section` draws.

    `section`: the section of the settings with share, cdn and limit; `scratch`: a folder for a temporary
    file. InputError if the names are not resolved; UsageError as `drawn`.
    """
    settings = run.settings
    dns_answer = run.layout.dns_answer(key)
    if not dns_answer.is_file():
        raise InputError(f"there is no {dns_answer}: run the resolve stage of {key.vantage} first")
    found = choose.choose(dns_answer, settings.probe.families, settings.probe.all_addresses, scratch)
    wanted = drawn(
        found, getattr(settings, section), int(run.manifest["seed"]), mapper, key.shard, section=section
    )
    return choose.only(found, wanted, scratch)


def drawn(
    plan: pa.Table,
    settings: Drawn,
    seed: int,
    mapper: Mapper,
    shard: Shard,
    *,
    section: str = "handshake",
) -> Mask:
    """Return which rows of a plan (scanner.driver.choose) are of names to connect with.

    Of the names with an address of `settings.cdn`, `settings.share` by their numbers, and of these the
    `settings.limit` with the smallest numbers; a shard has its part of the limit. UsageError for a CDN that
    the CDN map does not have, naming `section` of the settings.
    """
    unknown = sorted(set(settings.cdn) - mapper.cdns)
    if unknown:
        raise UsageError(
            f"{section}.cdn names {unknown[0]}, which the CDN map does not have; it has "
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
    ips = rows_at(plan.select(["ip"]), places)["ip"].to_pylist()
    found = np.zeros(plan.num_rows, dtype=bool)
    found[places] = [mapper.origin(ip).cdn in cdns for ip in ips]
    return found
