"""Chromium in guests whose clock goes on while it computes: what it does does not hang on milliseconds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.testbed import command
from testbed import series, stacks
from tests.testbed.guests.test_trials import run


def test_it_probes_by_its_own_timeout(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Table 4: before any sample of the RTT."""
    run(tmp_path, "iack-default-pto", "--seeds", "1", "--cells", "chromium")
    capfd.readouterr()
    command(["show", "iack-default-pto", "--out", str(tmp_path), "--format", "jsonl"], standalone_mode=False)
    (found,) = (json.loads(line) for line in capfd.readouterr().out.splitlines())
    assert (found["client"], found["trials"], found["verdict"]) == ("chromium", 2, "met")
    assert found["second_flight"] == "3-5"


def test_it_completes_with_other_servers(tmp_path: Path) -> None:
    cells = [f"chromium-{one}" for one in ("quiche-iack", "quic-go-wfc", "quinn-iack", "s2n-quic-wfc")]
    run(tmp_path, "iack-browsers", "--seeds", "1", "--cells", ",".join(cells))
    rows = series.rows(tmp_path, "iack-browsers")
    assert len(rows) == 4 and {row["outcome"] for row in rows} == {"done"}
    assert {row["client_version"] for row in rows} == {stacks.find("chromium").version.known()}
    assert {row["first_answer"] for row in rows if row["answering"] == "iack"} == {"iack"}
    # The certificate takes 200 ms, whatever the browser computes.
    assert all(row["first_stream_us"] > 209_000 for row in rows)
