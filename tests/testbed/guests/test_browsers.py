"""Browsers in guests. The clock advances while they compute, so no test depends on milliseconds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.lab.testbed import command
from testbed import stacks
from testbed.trials import series
from tests.testbed.guests.test_trials import run


def test_they_probe_by_their_own_timeouts(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Table 4: before any sample of the RTT."""
    run(tmp_path, "iack-default-pto", "--seeds", "1", "--cells", "chromium,firefox")
    capfd.readouterr()
    command(["show", "iack-default-pto", "--out", str(tmp_path), "--format", "jsonl"], standalone_mode=False)
    found = {line["client"]: line for line in map(json.loads, capfd.readouterr().out.splitlines())}
    assert {name: line["trials"] for name, line in found.items()} == {"chromium": 2, "firefox": 2}
    for line in found.values():
        # The browser's computing time adds to the timeout. RFC 9002's default would be 999 ms.
        assert 295 <= line["default_pto_ms"] < 900, line


def test_they_complete_with_other_servers(tmp_path: Path) -> None:
    cells = ["chromium-quiche-iack", "firefox-quic-go-wfc", "chromium-quinn-iack", "firefox-s2n-quic-wfc"]
    run(tmp_path, "iack-browsers", "--seeds", "1", "--cells", ",".join(cells))
    rows = series.rows(tmp_path, "iack-browsers")
    assert len(rows) == 4 and {row["outcome"] for row in rows} == {"done"}
    for row in rows:
        assert row["client_version"] == stacks.find(row["client"]).version.known()
    assert {row["first_answer"] for row in rows if row["answering"] == "iack"} == {"iack"}
    # The certificate takes 200 ms, whatever the browser computes.
    assert all(row["first_stream_us"] > 209_000 for row in rows)
