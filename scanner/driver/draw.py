"""Samples the names that a stage contacts in addition to the probes.

A hash of the run's seed and the name selects a name, or an address without a name. So the same names are
selected in every repetition, at every vantage point and in any shard, if they have an address there.
"""

from __future__ import annotations

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
from scanner.driver.segments import BATCH

_ALL = 1 << 64

Numbers = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]


def plan(run: Run, key: StageKey, section: str, mapper: Mapper, *, over_quic: bool) -> pa.Table:
    """Return the probe stage's addresses of `key`, restricted to the names that `section` samples.

    `section`: the section of the settings with share, cdn and limit. `over_quic`: the stage uses QUIC, so
    `probe.https_record` applies. Raise InputError if the names are not resolved, and UsageError like
    `sampled_rows`.
    """
    promised = choose.contacted_over_quic(run, key) if over_quic else None
    chosen = choose.resolved(run, key, promised=promised)
    mask = sampled_rows(
        chosen, getattr(run.settings, section), int(run.manifest["seed"]), mapper, key.shard, section=section
    )
    return choose.select_rows(chosen, mask)


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
    numbers = (
        number(seed, domain or ip)
        for batch in plan.select(["domain", "ip"]).to_batches(BATCH)
        for domain, ip in zip(*(column.to_pylist() for column in batch.columns), strict=True)
    )
    return np.fromiter(numbers, np.uint64, plan.num_rows)


def _of_cdns(plan: pa.Table, mask: Mask, cdns: frozenset[str], mapper: Mapper) -> Mask:
    """Return which of the rows in `mask` have an address of these CDNs."""
    result = np.zeros(plan.num_rows, dtype=bool)
    result[mask] = [mapper.origin(ip).cdn in cdns for ip in plan["ip"].filter(pa.array(mask)).to_pylist()]
    return result
