"""Reads the names of a run's list, and selects the resolver."""

from __future__ import annotations

from typing import NamedTuple

import dns.exception
import dns.resolver
import pyarrow as pa
import pyarrow.parquet as pq

from firstflight.errors import InputError, UsageError
from firstflight.run.run import Run
from firstflight.settings import Resolve
from firstflight.shard import WHOLE, Shard
from scanner.resolver.query import Resolver

# Names that are in memory as Python's bytes at a time.
BATCH = 65_536


class Name(NamedTuple):
    """One name to resolve."""

    rank: int | None
    domain: str
    list_id: str


def read_list(run: Run, shard: Shard = WHOLE) -> pa.Table:
    """Return the columns rank, domain and list_id of the run's list, or of a shard's names, in its order.

    InputError without a list.
    """
    if not run.layout.targets.is_file():
        raise InputError(f"there is no {run.layout.targets}: run the targets stage of this run first")
    try:
        names = pq.ParquetFile(run.layout.targets).read(["rank", "domain", "list_id"])
    except (OSError, pa.ArrowException) as error:
        raise InputError(
            f"cannot read {run.layout.targets} ({error}): run the targets stage again"
        ) from error
    return names if shard.is_whole else names.filter(_held(names, shard))


def _held(names: pa.Table, shard: Shard) -> pa.ChunkedArray:
    """Return which names belong to a shard; of their texts few are in memory as Python's at a time."""
    batches = names.select(["domain"]).to_batches(max_chunksize=BATCH)
    held = (shard.holds(batch["domain"].cast(pa.binary()).to_pylist()) for batch in batches)
    return pa.chunked_array([pa.array(mask, pa.bool_()) for mask in held], pa.bool_())


def read_targets(run: Run) -> list[Name]:
    """Return the names of the run's list, in its order: for the few of a watch."""
    columns = read_list(run).to_pydict()
    return list(map(Name, columns["rank"], columns["domain"], columns["list_id"]))


def configured_resolver(settings: Resolve) -> Resolver:
    """Return the resolver for single queries: the first of `configured_resolvers`."""
    address, _, port = configured_resolvers(settings)[0].partition(",")[0].partition("#")
    return Resolver(address, int(port or 53), settings.timeout_s, settings.attempts)


def configured_resolvers(settings: Resolve) -> tuple[str, ...]:
    """Return the resolvers that the settings name, as `ADDRESS#PORT`, perhaps with `,weight=N`.

    Without any in the settings, the first of this machine's /etc/resolv.conf; UsageError if there is none.
    """
    if settings.resolvers:
        return settings.resolvers
    address = settings.resolver
    if address is None:
        try:
            address = str(dns.resolver.Resolver().nameservers[0])
        except (dns.exception.DNSException, OSError, IndexError) as error:
            raise UsageError(
                "/etc/resolv.conf names no resolver here: name one as [resolve] resolver"
            ) from error
    return (f"{address}#{settings.port}",)
