"""Reads the names in a run's list."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import compress
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from firstflight.errors import InputError
from firstflight.run.run import Run
from firstflight.shard import WHOLE, Shard
from scanner.driver.segments import BATCH

# A name's values from its list.
LISTED = pa.schema([("rank", pa.uint32()), ("list_id", pa.string())])


class Name(NamedTuple):
    """One name to resolve."""

    rank: int | None
    domain: str
    list_id: str


def read_list(run: Run, shard: Shard = WHOLE) -> pa.Table:
    """Return the columns rank and list_id for a shard's names, in the order of the list.

    Raise InputError if the list is missing or unreadable.
    """
    with _opened(run) as path:
        table = pq.ParquetFile(path).read([*LISTED.names, *(() if shard.is_whole else ("domain",))])
    if not shard.is_whole:
        in_shard = shard.holds(name.encode() for name in table["domain"].to_pylist())
        table = table.filter(pa.array(in_shard, pa.bool_()))
    return table.select(LISTED.names).cast(LISTED).combine_chunks()


def domains(run: Run, shard: Shard = WHOLE) -> Iterator[list[str]]:
    """Yield a shard's names in batches, in the order of the list. Raise InputError like `read_list`."""
    with _opened(run) as path:
        for batch in pq.ParquetFile(path).iter_batches(BATCH, columns=["domain"]):
            names = batch["domain"].to_pylist()
            yield names if shard.is_whole else list(compress(names, shard.holds(n.encode() for n in names)))


def read_targets(run: Run) -> list[Name]:
    """Return the names of the run's list, in order. For a watch's few names."""
    with _opened(run) as path:
        columns = pq.ParquetFile(path).read(["rank", "domain", "list_id"]).to_pydict()
    return list(map(Name, columns["rank"], columns["domain"], columns["list_id"]))


@contextmanager
def _opened(run: Run) -> Iterator[Path]:
    path = run.layout.targets
    if not path.is_file():
        raise InputError(f"there is no {path}: run the targets stage of this run first")
    try:
        yield path
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"cannot read {path} ({error}): run the targets stage again") from error
