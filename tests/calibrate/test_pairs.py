"""A block of pairs with only targets that the engines reject."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from scanner.calibrate import pairs
from scanner.driver.segments import read_segment


def test_a_block_that_both_engines_reject_has_no_pair(tmp_path: Path) -> None:
    """The block is done and has the same columns as other blocks, so the stage continues after it."""
    block = pa.table(
        {
            "target": pa.array([2, 3], pa.uint32()),
            "domain": ["a.example", "b.example"],
            "ip": ["192.0.2.1", "192.0.2.2"],
        }
    )
    pairs.write(tmp_path, 7, block, np.array([True, False]), tmp_path / "steps")
    assert pairs.done(tmp_path) == [pairs.path(tmp_path, 7)]
    written = read_segment(pairs.path(tmp_path, 7))
    assert written.num_rows == 0
    expected = {"target", "domain", "ip", "port", "block", "first"}
    for side in pairs.SIDES:
        expected |= {f"{side}_{name}" for name in pairs.names(side)} | {f"{side}_ack_to_sh_us"}
    assert set(written.column_names) == expected
    types = {field.name: field.type for field in written.schema}
    assert (types["port"], types["probe_sent_at"], types["probe_outcome"]) == (
        pa.uint16(),
        pa.int64(),
        pa.string(),
    )
