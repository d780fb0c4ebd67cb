"""`firstflight.runs`, `query`, `sql` and `records`: the same from every store, and from record files."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import firstflight
from firstflight.errors import FirstflightError, InputError, UsageError
from firstflight.notebook import _text
from schemas import records
from tests.queries.conftest import RUN_1, RUN_2, first_run, second_run, write_run
from tests.store.rows import write
from tests.store.served.serving import serving


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of two runs; there is no store."""
    folder = tmp_path / "runs"
    for run, rows in ((RUN_1, first_run()), (RUN_2, second_run())):
        write_run(folder, run, rows)
        about = {"id": run, "name": "small", "state": "done", "tool_version": "0.1.0"}
        about["started_at"] = f"{run[:4]}-{run[4:6]}-{run[6:8]}T05:59:00+00:00"
        (folder / run / "manifest.json").write_text(json.dumps(about))
    monkeypatch.setenv("FIRSTFLIGHT_RUNS", str(folder))
    return folder


def test_importing_is_cheap() -> None:
    """Every command imports the package: only the names that are used import more."""
    program = "import sys, firstflight; dir(firstflight); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert {"pyarrow", "pandas", "chdb", "pydantic"}.isdisjoint(loaded.stdout.split())
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        firstflight.nothing  # noqa: B018


def test_a_served_store(campaign: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(Path(campaign.removeprefix("chdb:"))) as served:
        monkeypatch.setenv("FIRSTFLIGHT_STORE", served.url)
        found = firstflight.query("iack_share", run=RUN_1, since=date(2026, 11, 20))
        assert {row["cdn"]: row["iack"] for row in found.to_pylist()}["Google"] == 1
        with pytest.raises(UsageError, match="the store refused: Unknown expression identifier"):
            firstflight.sql("SELECT nothing")


def test_an_embedded_store(campaign: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTFLIGHT_STORE", campaign)
    found = firstflight.sql("SELECT cdn, outcome FROM quic_probe WHERE cdn = 'Google'")
    assert found.to_pylist() == [{"cdn": "Google", "outcome": "iack"}] and len(found) == 1
    with pytest.raises(UsageError, match="give a SELECT without a FORMAT clause"):
        firstflight.sql("SELECT 1 FORMAT TSV")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("exit 4", "`firstflight sql` ended with status 4"),
        ("kill -9 $$", "`firstflight sql` ended by signal 9"),
    ],
)
def test_a_command_may_end_without_a_message(
    line: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\n{line}\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    with pytest.raises(FirstflightError, match=f"^{re.escape(says)}$"):
        firstflight.sql("SELECT 1")


def test_a_missing_store() -> None:
    with pytest.raises(UsageError, match="store"):
        firstflight.runs()


def test_runs_of_a_folder(runs: Path) -> None:
    found = firstflight.runs(runs)
    assert [row["run"] for row in found.to_pylist()] == [RUN_2, RUN_1]
    assert found.schema.field("started_at").type == pa.timestamp("ns", "UTC")
    with pytest.raises(InputError, match="there is no folder"):
        firstflight.runs(runs / "nowhere")


def test_records_in_every_library(runs: Path) -> None:
    found = firstflight.records(RUN_1, "quic_probe")
    assert len(found) == len(first_run())
    assert found.column_names == [
        column.name for column in records.load("quic_probe").columns if column.source != "store"
    ]
    names = [row["domain"] for row in first_run()]
    assert sorted(found["domain"].to_pylist()) == sorted(found.to_pandas().domain) == sorted(names)
    assert sorted(found.to_polars()["domain"]) == sorted(polars.DataFrame(found)["domain"]) == sorted(names)
    with duckdb.connect() as connection:
        connection.register("probes", found.arrow)
        counted = connection.execute("SELECT count() FROM probes WHERE outcome = 'iack'").fetchall()
    assert counted == [(sum(row["outcome"] == "iack" for row in first_run()),)]
    assert set(found["run"].to_pylist()) == {RUN_1}
    newest = firstflight.records("newest", "quic_probe", ["run", "sent_at"])
    assert newest.column_names == ["run", "sent_at"] and set(newest["run"].to_pylist()) == {RUN_2}
    assert len(firstflight.records(runs / RUN_2, "quic_probe", ["domain"])) == 2
    assert "rows: domain" in repr(firstflight.records(RUN_2, "quic_probe", ["domain"]))


def test_record_files_of_earlier_versions(runs: Path) -> None:
    """They have instants as int64."""
    (path,) = (runs / RUN_2).rglob("quic_probe.parquet")
    now = firstflight.records(RUN_2, "quic_probe", ["sent_at"]).to_pylist()
    pq.write_table(records.with_numbers(pq.read_table(path)), path)
    assert pq.read_schema(path).field("sent_at").type == pa.int64()
    assert firstflight.records(RUN_2, "quic_probe", ["sent_at"]).to_pylist() == now


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        ((RUN_1, "quic_prob"), UsageError, "there is no record kind 'quic_prob'; did you mean quic_probe"),
        (
            (RUN_1, "quic_probe", ["domian"]),
            UsageError,
            "no column in quic_probe 'domian'; did you",
        ),
        (("20200101T000000Z-aaaaaa", "quic_probe"), UsageError, "there is no run 2020"),
        ((RUN_1, "download"), InputError, "has no records of download; there are quic_probe"),
        (("newest", "download"), InputError, "no run has records of download"),
    ],
)
def test_mistakes(runs: Path, arguments: tuple[Any, ...], error: type[Exception], sentence: str) -> None:
    assert runs.is_dir()
    with pytest.raises(error, match=sentence):
        firstflight.records(*arguments)


def test_a_file_of_another_kind(runs: Path) -> None:
    write(runs / RUN_1 / "hamburg" / "1" / "probe" / "tcp_option.parquet", first_run(), "quic_probe")
    with pytest.raises(InputError, match="is not a tcp_option file: it lacks "):
        firstflight.records(RUN_1, "tcp_option")
    (runs / RUN_1 / "hamburg" / "1" / "probe" / "download.parquet").write_text("PAR1")
    with pytest.raises(InputError, match="cannot read "):
        firstflight.records(RUN_1, "download")


@pytest.mark.parametrize(
    ("value", "text"), [(True, "true"), (3, "3"), ([1, 2], "1,2"), (date(2026, 11, 20), "2026-11-20")]
)
def test_parameters(value: object, text: str) -> None:
    assert _text(value) == text
