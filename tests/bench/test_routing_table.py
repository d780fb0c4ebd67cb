"""The artificial routing table of `python -m bench routing_table` is one that the reader accepts."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from bench.engines.routing_table import records
from firstflight.system import binaries


def test_the_reader_finds_every_prefix(tmp_path: Path) -> None:
    table, out = tmp_path / "rib.mrt", tmp_path / "out"
    table.write_bytes(b"".join(records(100)))
    argv = [str(binaries.find("firstflight-rib")), str(table), "--out", str(out)]
    told = json.loads(subprocess.run(argv, capture_output=True, check=True).stdout)
    assert (told["counts"]["records"], told["prefixes_v4"]) == (100, 100)
    # Every call yields the same records.
    assert b"".join(records(100)) == table.read_bytes()
