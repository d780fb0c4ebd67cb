"""`firstflight report handshakes`: the section of the page in a terminal and for programs."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.look.report import handshakes as command
from reports.page import handshake_tables
from store import open_store
from store.load import loader
from tests.report.test_handshakes_section import HOSTILE, ROWS
from tests.store.rows import DAY_NS, RUN, probe, write

FIRSTFLIGHT = str(Path(sys.executable).parent / "firstflight")
LATER = "20261121T060000Z-b2c3d4"
PARTS = list(handshake_tables.PARTS)
SAID = f"run {RUN}, the only run with handshakes\n"


@pytest.fixture
def loaded(tables: Path, tmp_path: Path) -> Iterator[None]:
    """Load the rows of the page's section, and a later run with only probes."""
    assert tables.is_dir()
    later = probe(run=LATER, sent_at=DAY_NS + 86_400 * 10**9)
    loader.load_files(
        [
            write(tmp_path / "quic_handshake.parquet", ROWS, "quic_handshake"),
            write(tmp_path / "quic_probe.parquet", [later]),
        ]
    )
    yield


def report(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [FIRSTFLIGHT, "report", "handshakes", *arguments]
    return subprocess.run(command, env=os.environ, capture_output=True, text=True, check=False)


def lines(*arguments: str) -> list[dict[str, Any]]:
    done = report("--format", "jsonl", *arguments)
    assert (done.returncode, done.stderr) == (0, SAID)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.usefixtures("loaded")
def test_a_table_for_each_part() -> None:
    done = report()
    assert (done.returncode, done.stderr) == (0, SAID)
    shown = done.stdout.splitlines()
    assert shown[0] == f"Handshakes of run {RUN}, all addresses. -: nothing counted."
    cells = [line.split() for line in shown]
    assert ["Cloudflare", "5", "5", "3", "1", "1", "0", "2", "1", "2", "20.0", "30.0"] in cells
    assert ["Others", "1", "1", "0", "0", "0", "1", "0", "0", "0", "-", "-"] in cells
    assert ["Cloudflare", "quiche", "3", "3", "1", "100.0", "-"] in cells
    assert ["Cloudflare", "0x01", "max_idle_timeout", "3", "100.0", "1", "30000", "100.0"] in cells
    assert ["Cloudflare", "3", *["2.50", "2.50", "0.0"], *["-"] * 5] in cells
    assert ["Cloudflare", "3", "1", "2", "2500", "2500", "2500", "0.0", "-", "-"] in cells
    assert ["hamburg", "Cloudflare", "FRA", "2", "2", "100.0", "9.0"] in cells
    assert "\x1b" not in done.stdout


@pytest.mark.usefixtures("loaded")
def test_one_part_alone_and_one_without_rows() -> None:
    assert "FRA" in report("--part", "locations").stdout
    assert "quiche" not in report("--part", "locations").stdout
    with open_store(write=True) as store:
        store.execute(
            f"ALTER TABLE {store.dialect.database}.quic_handshake DELETE WHERE domain != 'g.example'"
        )
    assert report("--part", "locations").stdout.endswith("\n\nThe run has no rows of locations.\n")
    assert "Edge locations" not in report().stdout


@pytest.mark.usefixtures("loaded")
def test_programs_get_the_columns_of_the_queries() -> None:
    rows = {row["cdn"]: row for row in lines()}
    assert list(rows) == [HOSTILE, "Cloudflare", "Others"]
    cloudflare, others = rows["Cloudflare"], rows["Others"]
    quartiles = [
        f"{time}_{quarter}_us" for time in ("handshake", "response") for quarter in ("p25", "p50", "p75")
    ]
    assert next(iter(cloudflare)) == "run" and list(cloudflare)[-6:] == quartiles
    assert [cloudflare[name] for name in quartiles] == [20_000, 20_000, 22_000, 30_000, 30_000, 30_000]
    assert [others[name] for name in quartiles] == [None] * 6
    assert (cloudflare["run"], cloudflare["handshakes"], others["not_sent"]) == (RUN, 5, 1)
    assert [row["leaves"] for row in lines("--part", "certificates")] == [1, 1]
    done = report("--format", "csv", "--part", "locations")
    read = list(csv.DictReader(io.StringIO(done.stdout)))
    assert {row["location"]: row["handshakes"] for row in read} == {HOSTILE: "1", "FRA": "2"}


@pytest.mark.usefixtures("loaded")
def test_newest_is_the_newest_run_with_handshakes() -> None:
    assert {row["run"] for row in lines("--run", "newest")} == {RUN}
    done = report("--run", LATER)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"firstflight: run {LATER} has no handshake in the store: its settings need [handshake] enabled, and "
        "it must be loaded (firstflight load RUN)\n"
    )


def test_a_store_without_handshakes_is_one_sentence(tables: Path) -> None:
    done = report()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"firstflight: the store in {tables} has no handshake: run a campaign with [handshake] enabled, or "
        "load one (firstflight load RUN)\n"
    )


def test_the_option_names_every_part() -> None:
    (option,) = (parameter for parameter in command.params if parameter.name == "part")
    assert list(getattr(option.type, "choices", ())) == PARTS
