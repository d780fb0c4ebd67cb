"""A block of pairs: which side of each pair is sent first, and its rows from what two engines wrote.

A block is sent in four steps, so that the order alternates among the pairs and no engine runs beside
another: the probes of one half, the handshakes of the other half, then the other side of each half.
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
from firstflight.system import files
from scanner.driver.draw import number
from scanner.driver.rows import Rows
from scanner.driver.segments import closed_segments
from schemas import records

PROBE, HANDSHAKE = "probe", "handshake"
SIDES = (PROBE, HANDSHAKE)
_SOURCE = {PROBE: "prober", HANDSHAKE: "handshake"}

Mask = npt.NDArray[np.bool_]


class Step(NamedTuple):
    """One run of an engine: its folder, its side, and whether it takes the pairs whose probe is first."""

    name: str
    side: str
    probe_first: bool

    def takes(self, first: Mask) -> Mask:
        """Return which pairs of a block it takes; `first`: those whose probe is sent first."""
        return first if self.probe_first else ~first


STEPS = (
    Step("1-probe", PROBE, True),
    Step("2-handshake", HANDSHAKE, False),
    Step("3-handshake", HANDSHAKE, True),
    Step("4-probe", PROBE, False),
)


def blocks(plan: pa.Table, size: int) -> Iterator[tuple[int, pa.Table]]:
    """Yield the blocks of a plan (scanner.driver.choose) with their numbers, from 1."""
    for n, begin in enumerate(range(0, plan.num_rows, size), start=1):
        yield n, plan.slice(begin, size)


def probe_first(block: pa.Table, seed: int, repetition: int) -> Mask:
    """Return the pairs of a block whose probe is sent first: half of them, drawn by seed and repetition."""
    pairs = zip(block["domain"].to_pylist(), block["ip"].to_pylist(), strict=True)
    drawn = [number(seed, f"{repetition} {ip} {domain}") for domain, ip in pairs]
    # Of an odd block the larger half is of either side, by its smallest number.
    most = (len(drawn) + min(drawn) % 2) // 2
    found = np.zeros(len(drawn), dtype=bool)
    found[sorted(range(len(drawn)), key=drawn.__getitem__)[:most]] = True
    return found


def names(side: str) -> list[str]:
    """Return the columns of one side of a pair that its engine fills, without the prefix."""
    kind = records.load("calibration")
    return [c.name.removeprefix(f"{side}_") for c in kind.columns if c.source == _SOURCE[side]]


def path(folder: Path, block: int) -> Path:
    """Return the file with the pairs of a block that is done, in the stage's folder."""
    return folder / "pairs" / f"{block:06}.arrow"


def done(folder: Path) -> list[Path]:
    """Return the files of all blocks that are done, in their order."""
    return sorted((folder / "pairs").glob("*.arrow"), key=lambda file: int(file.stem))


def write(folder: Path, of: int, block: pa.Table, first: Mask, steps: Path) -> None:
    """Write the pairs of block number `of` from the segments of its steps, which are in folders of `steps`.

    A pair that both engines rejected is left out. FirstflightError if only one of its sides has a row.
    """
    sides = {side: _rows(side, first, steps) for side in SIDES}
    places = sides[PROBE][0]
    if not np.array_equal(places, sides[HANDSHAKE][0]):
        raise FirstflightError(f"block {of} in {folder}: a pair has one side; run the stage with --again")
    own = block.take(pa.array(places))
    columns = {name: own[name] for name in ("target", "domain", "ip")}
    columns["port"] = sides[PROBE][1]["port"]
    columns["block"] = pa.array(np.full(len(places), of, np.uint32))
    columns["first"] = pc.if_else(pa.array(first[places]), *SIDES)
    for side, (_, table) in sides.items():
        columns |= {f"{side}_{name}": table[name] for name in names(side)}
        columns[f"{side}_ack_to_sh_us"] = pc.subtract(table["sh_us"], table["ack_us"])
    pairs = pa.table(columns).combine_chunks()
    out = path(folder, of)
    with (
        files.replacing(out) as part,
        pa.OSFile(str(part), "wb") as sink,
        pa.ipc.new_file(sink, pairs.schema) as writer,
    ):
        writer.write_table(pairs)


def _none(side: str) -> pa.Table:
    """Return the columns of one side without a row, by the types of the record kind."""
    kind = records.load("calibration")
    types = {"port": kind.column("port"), **{name: kind.column(f"{side}_{name}") for name in names(side)}}
    return pa.table({name: pa.array([], column.arrow_type()) for name, column in types.items()})


def _rows(side: str, first: Mask, steps: Path) -> tuple[npt.NDArray[np.int64], pa.Table]:
    """Return the places in the block of the rows of one side, ascending, and these rows."""
    places, tables = [], []
    for step in STEPS:
        taken = np.flatnonzero(step.takes(first))
        folder = steps / step.name
        if step.side != side or not len(taken):
            continue
        closed = closed_segments(folder / "segments")
        if not closed:
            continue  # all rejected
        rows = Rows(closed, folder)
        places.append(taken[rows.targets.astype(np.int64) - 2])
        tables.append(rows.slice(0, len(rows), ["port", *names(side)]))
    if not tables:  # the engines rejected all targets of the block
        return np.empty(0, np.int64), _none(side)
    found = np.concatenate(places)
    order = np.argsort(found)
    return found[order], pa.concat_tables(tables).take(pa.array(order))
