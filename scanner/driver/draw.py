"""Samples the names that a stage contacts in addition to the probes.

A hash of the run's seed and the name selects a name, or an address without a name. So the same names are
selected in every repetition, at every vantage point and in any shard, if they have an address there.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from firstflight.as_map import Mapper
from firstflight.errors import UsageError
from firstflight.layout import StageKey
from firstflight.run.run import Run
from firstflight.sampling import number
from firstflight.settings import SampledNames
from firstflight.shard import Shard
from scanner.driver import choose
from scanner.driver.mapped import rows_at

_ALL = 1 << 64

Numbers = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]


def plan(
    run: Run, key: StageKey, section: str, mapper: Mapper, scratch: Path, *, over_quic: bool
) -> pa.Table:
    """Return the probe stage's addresses of `key`, restricted to the names that `section` samples.

    `section`: the section of the settings with share, cdn and limit. `scratch`: a folder for a temporary
    file. `over_quic`: the stage uses QUIC, so `probe.https_record` applies. Raise InputError if the names are
    not resolved, and UsageError like `sampled_rows`.
    """
    promised = choose.contacted_over_quic(run, key) if over_quic else None
    chosen = choose.resolved(run, key, scratch, promised=promised)
    mask = sampled_rows(
        chosen, getattr(run.settings, section), int(run.manifest["seed"]), mapper, key.shard, section=section
    )
    return choose.select_rows(chosen, mask, scratch)


def sampled_rows(
    plan: pa.Table,
    settings: SampledNames,
    seed: int,
    mapper: Mapper,
    shard: Shard,
    *,
    section: str = "handshake",
) -> Mask:
    """Return which rows in a plan (scanner.driver.choose) belong to sampled names.

    Each name with an address of `settings.cdn` has a number. Numbers select the share `settings.share`, and
    then the `settings.limit` names with the smallest numbers; a shard has its part of the limit. Raise
    UsageError, with `section`, for a CDN that is not in the CDN map.
    """
    unknown = sorted(set(settings.cdn) - mapper.cdns)
    if unknown:
        raise UsageError(
            f"{section}.cdn names {unknown[0]}, which the CDN map does not have; it has "
            f"{', '.join(sorted(mapper.cdns))}"
        )
    numbers = _numbers(plan, seed)
    mask = numbers < np.uint64(int(settings.share * _ALL)) if settings.share < 1 else numbers >= 0
    if settings.cdn:
        mask &= _of_cdns(plan, mask, frozenset(settings.cdn), mapper)
    if settings.limit is not None:
        limit = (
            settings.limit * (shard.index + 1) // shard.count - settings.limit * shard.index // shard.count
        )
        mask &= np.isin(numbers, np.unique(numbers[mask])[:limit])
    return mask


def _numbers(plan: pa.Table, seed: int) -> Numbers:
    numbers = np.empty(plan.num_rows, np.uint64)
    begin = 0
    for batch in plan.select(["domain", "ip"]).to_batches():
        domains, ips = (column.to_pylist() for column in batch.columns)
        names = (number(seed, domain or ip) for domain, ip in zip(domains, ips, strict=True))
        numbers[begin : begin + batch.num_rows] = np.fromiter(names, np.uint64, batch.num_rows)
        begin += batch.num_rows
    return numbers


def _of_cdns(plan: pa.Table, mask: Mask, cdns: frozenset[str], mapper: Mapper) -> Mask:
    """Return which of the rows in `mask` have an address of these CDNs."""
    indices = np.flatnonzero(mask)
    ips = rows_at(plan.select(["ip"]), indices)["ip"].to_pylist()
    result = np.zeros(plan.num_rows, dtype=bool)
    result[indices] = [mapper.origin(ip).cdn in cdns for ip in ips]
    return result
