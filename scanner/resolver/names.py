"""Reads the names of a run's list, and selects the resolver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import compress
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

# Names that are in memory as Python's strings at a time.
BATCH = 65_536


class Name(NamedTuple):
    """One name to resolve."""

    rank: int | None
    domain: str
    list_id: str


def read_list(run: Run, shard: Shard = WHOLE) -> pa.Table:
    """Return the columns rank and list_id of a shard's names, in the order of the list.

    list_id is a dictionary. InputError without a list, or if it cannot be read.
    """
    with _opened(run) as file:
        names = file.read(["rank", "list_id"])
        if shard.is_whole:
            return names
        held = [pa.array(mask, pa.bool_()) for _, mask in _batches(file, shard)]
        return names.filter(pa.chunked_array(held, pa.bool_()))


def domains(run: Run, shard: Shard = WHOLE) -> Iterator[list[str]]:
    """Yield a shard's names, in the order of the list, in batches. InputError as `read_list`."""
    with _opened(run) as file:
        if shard.is_whole:
            for batch in file.iter_batches(BATCH, columns=["domain"]):
                yield batch["domain"].to_pylist()
        else:
            for names, mask in _batches(file, shard):
                yield list(compress(names, mask))


def _batches(file: pq.ParquetFile, shard: Shard) -> Iterator[tuple[list[str], list[bool]]]:
    """Yield the names of the list, and which of them the shard has."""
    for batch in file.iter_batches(BATCH, columns=["domain"]):
        names = batch["domain"].to_pylist()
        yield names, shard.holds(name.encode() for name in names)


def read_targets(run: Run) -> list[Name]:
    """Return the names of the run's list, in its order: for the few of a watch."""
    with _opened(run) as file:
        columns = file.read(["rank", "domain", "list_id"]).to_pydict()
    return list(map(Name, columns["rank"], columns["domain"], columns["list_id"]))


@contextmanager
def _opened(run: Run) -> Iterator[pq.ParquetFile]:
    path = run.layout.targets
    if not path.is_file():
        raise InputError(f"there is no {path}: run the targets stage of this run first")
    try:
        yield pq.ParquetFile(path, read_dictionary=["list_id"])
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"cannot read {path} ({error}): run the targets stage again") from error


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
