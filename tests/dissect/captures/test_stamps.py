"""The native dissector's provenance columns, names of captures, and counts."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from schemas import records
from tests.dissect.conftest import FIXTURES, dissect, rows

CAPTURES = [FIXTURES / "quiche.pcap", FIXTURES / "quic-go.pcap"]
PLACE = {"run": "2026-a=b", "vantage": "hamburg", "repetition": 3, "tool_version": "0.1.0+abc (dirty)"}
STAMPS = [part for key, value in reversed(PLACE.items()) for part in ("--stamp", f"{key}={value}")]


@pytest.mark.parametrize("captures", [CAPTURES[:1], CAPTURES], ids=["one", "several"])
def test_a_record_file_is_as_described(tmp_path: Path, captures: list[Path]) -> None:
    names = [f"RUN/{path.name}" for path in captures]
    named = [part for name in names for part in ("--source-name", name)]
    parquet: list[str | Path] = [
        "--format",
        "parquet",
        "--out",
        tmp_path,
        "--summary",
        tmp_path / "summary.json",
    ]
    done = dissect(*captures, "--kind", "quic_connection,tcp_flow", *parquet, *STAMPS, *named)
    assert done.returncode == 0, done.stderr.decode()
    file = pq.ParquetFile(tmp_path / "quic_connection.parquet")
    assert file.schema_arrow.equals(records.load("quic_connection").arrow_schema(), check_metadata=True)
    assert {file.metadata.row_group(0).column(i).compression for i in range(file.metadata.num_columns)} == {
        "ZSTD"
    }
    stamped = file.read().to_pylist()
    assert [row["source_file"] for row in stamped] == names
    plain = rows(*captures, "--kind", "quic_connection")
    for row, without in zip(stamped, plain, strict=True):
        del without["kind"]
        assert row == without | PLACE | {"source_file": row["source_file"]}
    assert json.loads((tmp_path / "summary.json").read_text()) == {
        "quic_connection": {
            "rows": len(captures),
            "first_answer": {"coalesced": len(captures)},
            "without_client_hello": 0,
        },
        "tcp_flow": {"rows": 0},
    }


def test_json_lines_hold_the_stamps_that_are_given() -> None:
    plain, stamped = (
        list(rows(CAPTURES[0], "--kind", "quic_connection", *options)[0])
        for options in ([], ["--stamp", "tool_version=1", "--stamp", "repetition=65535"])
    )
    assert stamped == ["kind", "repetition", *plain[1:], "tool_version"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--stamp", "source_file=x"], "source_file is not a column to stamp: expected one of run, vantage"),
        (["--stamp", "run"], "run is not a stamp: expected KEY=VALUE"),
        (["--stamp", "run="], "run must not be empty"),
        (["--stamp", "repetition=-1"], "repetition must be an integer from 0 to 65535"),
        (["--stamp", "run=a", "--stamp", "run=b"], "--stamp run is given twice"),
        (["--stamp", "run=a", "--kind", "tcp_flow"], "--stamp needs --kind quic_connection"),
        (["--source-name", "a", "--source-name", "b"], "--source-name is given 2 times for 1 captures"),
        (["--summary", "/nowhere/summary.json"], "/nowhere/summary.json cannot be written"),
    ],
)
def test_wrong_use_is_one_sentence(options: list[str], sentence: str) -> None:
    done = dissect(CAPTURES[0], *options)
    assert (done.returncode, done.stdout) == (2, b"")
    stderr = done.stderr.decode()
    assert sentence in stderr and stderr.count("\n") == 1


def test_a_broken_capture_is_counted_as_far_as_it_can_be_read(tmp_path: Path) -> None:
    broken = tmp_path / "broken.pcap"
    broken.write_bytes(CAPTURES[0].read_bytes()[:-5])
    summary = tmp_path / "summary.json"
    done = dissect(broken, CAPTURES[1], "--kind", "quic_connection", "--summary", summary)
    assert done.returncode == 3
    assert json.loads(summary.read_text())["quic_connection"]["rows"] == 2
