"""A block of pairs: decides which side of each pair is sent first, and joins the rows of the two engines.

A block is sent in four steps: probes to one half, handshakes with the other half, handshakes with the first
half, probes to the second half. So the order alternates among the pairs, and no two engines run at the same
time.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from firstflight.errors import FirstflightError
from firstflight.sampling import number
from firstflight.system import files
from scanner.driver.rows import Rows
from scanner.driver.segments import closed_segments
from schemas import records

PROBE, HANDSHAKE = "probe", "handshake"
SIDES = (PROBE, HANDSHAKE)
_SOURCE = {PROBE: "prober", HANDSHAKE: "handshake"}

Mask = npt.NDArray[np.bool_]


class EngineStep(NamedTuple):
    """One run of an engine: its folder, its side, and whether it takes the pairs with the probe first."""

    name: str
    side: str
    probe_first: bool

    def takes(self, first: Mask) -> Mask:
        """Return which pairs in a block this step takes. `first`: the pairs with the probe first."""
        return first if self.probe_first else ~first


STEPS = (
    EngineStep("1-probe", PROBE, True),
    EngineStep("2-handshake", HANDSHAKE, False),
    EngineStep("3-handshake", HANDSHAKE, True),
    EngineStep("4-probe", PROBE, False),
)


def blocks(plan: pa.Table, size: int) -> Iterator[tuple[int, pa.Table]]:
    """Yield the blocks in a plan (scanner.driver.choose) with their numbers, from 1."""
    for n, begin in enumerate(range(0, plan.num_rows, size), start=1):
        yield n, plan.slice(begin, size)


def probe_first(block: pa.Table, seed: int, repetition: int) -> Mask:
    """Return which pairs in a block send the probe first: half of them, by seed and repetition."""
    pairs = zip(block["domain"].to_pylist(), block["ip"].to_pylist(), strict=True)
    numbers = [number(seed, f"{repetition} {ip} {domain}") for domain, ip in pairs]
    # In a block of odd size, the smallest number decides which side has the larger half.
    half = (len(numbers) + min(numbers) % 2) // 2
    is_first = np.zeros(len(numbers), dtype=bool)
    is_first[sorted(range(len(numbers)), key=numbers.__getitem__)[:half]] = True
    return is_first


def names(side: str) -> list[str]:
    """Return one side's columns that its engine fills, without the prefix."""
    kind = records.load("calibration")
    return [c.name.removeprefix(f"{side}_") for c in kind.columns if c.source == _SOURCE[side]]


def path(folder: Path, block: int) -> Path:
    """Return the file with the pairs in a finished block, in the stage's folder."""
    return folder / "pairs" / f"{block:06}.arrow"


def done(folder: Path) -> list[Path]:
    """Return the files of all finished blocks, in order."""
    return sorted((folder / "pairs").glob("*.arrow"), key=lambda file: int(file.stem))


def write(folder: Path, number: int, block: pa.Table, first: Mask, steps: Path) -> None:
    """Write the pairs of block `number` from its steps' segments, in folders below `steps`.

    Omit a pair that both engines rejected. Raise FirstflightError if only one side in a pair has a row.
    """
    sides = {side: _rows(side, first, steps) for side in SIDES}
    indices = sides[PROBE][0]
    if not np.array_equal(indices, sides[HANDSHAKE][0]):
        raise FirstflightError(f"block {number} in {folder}: a pair has one side; run the stage with --again")
    planned = block.take(pa.array(indices))
    columns = {name: planned[name] for name in ("target", "domain", "ip")}
    columns["port"] = sides[PROBE][1]["port"]
    columns["block"] = pa.array(np.full(len(indices), number, np.uint32))
    columns["first"] = pc.if_else(pa.array(first[indices]), *SIDES)
    for side, (_, table) in sides.items():
        columns |= {f"{side}_{name}": table[name] for name in names(side)}
        columns[f"{side}_ack_to_sh_us"] = pc.subtract(table["sh_us"], table["ack_us"])
    pairs = pa.table(columns).combine_chunks()
    out = path(folder, number)
    with (
        files.replacing(out) as part,
        pa.OSFile(str(part), "wb") as sink,
        pa.ipc.new_file(sink, pairs.schema) as writer,
    ):
        writer.write_table(pairs)


def _none(side: str) -> pa.Table:
    """Return one side's columns without rows, with the types of segments."""
    kind = records.load("calibration")
    types = {"port": kind.column("port"), **{name: kind.column(f"{side}_{name}") for name in names(side)}}
    return pa.table({name: pa.array([], column.segment_type()) for name, column in types.items()})


def _rows(side: str, first: Mask, steps: Path) -> tuple[npt.NDArray[np.int64], pa.Table]:
    """Return a side's rows in the block, and before them their positions in ascending order."""
    indices, tables = [], []
    for step in STEPS:
        block_rows = np.flatnonzero(step.takes(first))
        folder = steps / step.name
        if step.side != side or not len(block_rows):
            continue
        closed = closed_segments(folder / "segments")
        if not closed:
            continue  # all rejected
        rows = Rows(closed)
        indices.append(block_rows[rows.targets.astype(np.int64) - 2])
        tables.append(rows.slice(0, len(rows), ["port", *names(side)]))
    if not tables:  # the engines rejected all targets of the block
        return np.empty(0, np.int64), _none(side)
    index = np.concatenate(indices)
    order = np.argsort(index)
    return index[order], pa.concat_tables(tables).take(pa.array(order))
