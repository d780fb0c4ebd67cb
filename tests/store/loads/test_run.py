"""Loads a whole run into the store: its files, its row, the sums, and its stages' hashes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from firstflight.errors import FirstflightError, InputError
from firstflight.run.run import Run
from firstflight.settings import load as load_settings
from schemas import records
from store import open_store
from store.load import loader
from tests.store.rows import many, probe, write

FIRSTFLIGHT = str(Path(sys.executable).parent / "firstflight")
SETTINGS = """
[campaign]
name = "small"
[targets]
source = "file"
file = "names.txt"
[as_data]
rib = "file"
files = ["rib.mrt"]
[probe]
allow_net = ["198.18.0.0/15"]
[[vantage]]
name = "hamburg"
"""


@pytest.fixture
def run(tmp_path: Path, tables: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run with targets and a finished probe stage with three rows."""
    assert tables.is_dir()
    monkeypatch.setenv("FIRSTFLIGHT_RUNS", str(tmp_path / "runs"))
    for name in ("names.txt", "rib.mrt"):
        (tmp_path / name).write_text("", encoding="utf-8")
    config = tmp_path / "small.toml"
    config.write_text(SETTINGS, encoding="utf-8")
    made = Run.create(*load_settings(config))
    names = [{"rank": n + 1, "domain": f"name{n:06}.example", "list_id": "file:names"} for n in range(3)]
    with made.stage("targets") as report:
        made.add_output(report, write(made.layout.targets, names, "target"))
    _probe(made, [*many(2, run=made.id), probe("blocked", run=made.id, domain="b.example")], targets=3)
    return made


def _probe(run: Run, rows: list[dict[str, Any]], targets: int) -> None:
    with run.stage("probe", run.key("hamburg", 1)) as report:
        report.rows_in = targets
        run.add_output(report, write(run.layout.quic_probe(run.key("hamburg", 1)), rows))


def ask(query: str) -> list[dict[str, Any]]:
    with open_store() as store:
        return store.rows(query)


def test_stage_loads_all_and_balances(run: Run) -> None:
    loader.stage(run)
    report = run.report("load")
    assert report is not None
    assert (report.state, report.rows_in, report.rows_out) == ("done", 6, 6)
    assert report.counts == {"quic_probe": 3, "target": 3}
    assert ask("SELECT DISTINCT source_file FROM quic_probe") == [
        {"source_file": f"{run.id}/hamburg/1/probe/quic_probe.parquet"}
    ]
    assert ask("SELECT run, rank, domain, source_file FROM target ORDER BY rank LIMIT 1") == [
        {"run": run.id, "rank": 1, "domain": "name000000.example"}
        | {"source_file": f"{run.id}/targets/targets.parquet"}
    ]
    (row,) = ask("SELECT * FROM run")
    assert (row["run"], row["name"], row["state"]) == (run.id, "small", "running")
    assert row["config"] == SETTINGS
    assert "cid_key" not in json.loads(row["manifest"])
    assert json.loads(row["manifest"])["seed"] == run.manifest["seed"]


def test_run_row_follows_the_state_and_stays_one(run: Run) -> None:
    loader.stage(run)
    run.write_manifest(run.manifest | {"state": "done"})
    loader.stage(run)
    loader.stage(run)
    assert ask("SELECT run, state FROM run") == [{"run": run.id, "state": "done"}]


def test_sums_that_do_not_hold_are_an_error(run: Run) -> None:
    _probe(run, many(2, run=run.id), targets=3)  # a target without a row
    with pytest.raises(FirstflightError, match="the sums do not hold: 3 targets, 0 blocked"):
        loader.stage(run)
    report = run.report("load")
    assert report is not None
    assert report.state == "failed"


def test_a_file_that_its_stage_did_not_write_is_refused_and_the_rest_loaded(run: Run) -> None:
    write(run.layout.quic_probe(run.key("hamburg", 1)), many(3, run=run.id))
    with pytest.raises(InputError, match="differs from the output of its stage"):
        loader.stage(run)
    assert ask("SELECT count() AS n FROM quic_probe") == [{"n": 0}]
    assert ask("SELECT count() AS n FROM target") == [{"n": 3}]
    report = run.report("load")
    assert report is not None
    assert [rejected.line for rejected in report.rejected] == [1]


def test_load_command_counts_and_has_the_right_exit_status(run: Run, tmp_path: Path) -> None:
    def load(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([FIRSTFLIGHT, "load", *words], capture_output=True, text=True, check=False)

    done = load(run.id)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (
        "2 files: 2 loaded, 0 replaced, 0 unchanged, 0 refused; "
        "6 rows in the files loaded, 6 of them in the store\n"
    )
    assert "2 unchanged" in load(run.id).stdout

    broken = tmp_path / "broken" / "quic_probe.parquet"
    broken.parent.mkdir()
    broken.write_bytes(b"PAR1 and no more")
    other = write(tmp_path / "other" / "quic_probe.parquet", many(4, repetition=9))
    done = load(str(broken), str(other))
    assert done.returncode == 3
    assert f"refused: {broken} is not a whole Parquet file" in done.stderr
    assert "1 loaded" in done.stdout
    assert "1 refused" in done.stdout

    wrong = write(tmp_path / "wrong" / "quic_probe.parquet", [probe(ack_to_sh_us=1)])
    assert load(str(wrong)).returncode == 1
    done = load("no_such_run")
    assert done.returncode == 2
    assert "there is no run no_such_run" in done.stderr
    done = load(str(tmp_path / "absent.parquet"))
    assert (done.returncode, done.stderr) == (
        3,
        f"firstflight: there is no file {tmp_path / 'absent.parquet'}\n",
    )


@pytest.mark.parametrize(("source", "count"), [(None, 1), ("another", 0), ("own", 1)])
def test_a_crawl_of_another_run_is_loaded_only_with_that_run(
    run: Run, source: str | None, count: int
) -> None:
    """Downloads use the crawl of another run (orchestration/site/site.py). Both folders contain its files."""
    fields = [field for field in records.load("crawl_page").arrow_schema() if not field.nullable]
    numbers = (pa.types.is_integer, pa.types.is_timestamp)
    row = {field.name: 0 if any(matches(field.type) for matches in numbers) else "x" for field in fields}
    row |= {"run": "another" if source == "another" else run.id, "outcome": "blocked"}
    write(run.layout.crawl("crawl_page"), [row], "crawl_page")
    taken = {"crawl": {"run": run.id if source == "own" else source}} if source else {}
    run.write_manifest({**run.manifest, "inputs": taken})
    results = loader.load_run_folder(run)
    assert all(isinstance(result, loader.Loaded) for result in results), results
    assert ask("SELECT count() AS n FROM crawl_page") == [{"n": count}]
