"""Files of shards: the folder identifies a shard, and copies elsewhere neither replace nor duplicate rows."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from firstflight.errors import FirstflightError, InputError
from firstflight.layout import RunLayout, StageKey
from firstflight.run.run import Run
from firstflight.shard import all_of
from store import open_store
from store.load import derived, loader, origin, run_row, units
from store.load.loader import Loaded, RefusedFile, Result
from tests.store.rows import RUN, many, write
from tests.store.served.test_sharding import Recorder

pytestmark = pytest.mark.usefixtures("tables")
SHARDS = all_of(3)
MANIFEST = {"id": RUN, "state": "done", "started_at": "2026-11-20T06:00:00+00:00"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a run with three shards of a vantage point and ten probes per shard."""
    layout = RunLayout(tmp_path / RUN)
    for number, shard in enumerate(SHARDS):
        key = StageKey(RUN, "hamburg", 1, shard)
        rows = [{**row, "domain": f"{number}.{row['domain']}"} for row in many(10)]
        write(layout.stage("probe", key) / "quic_probe.parquet", rows)
    layout.manifest.write_text(json.dumps(MANIFEST))
    return layout.root


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("quic_probe.parquet"))


def actions(results: list[Result]) -> list[str]:
    return [result.action if isinstance(result, Loaded) else "refused" for result in results]


def refusal(path: Path) -> str:
    (result,) = loader.load_files([path])
    assert isinstance(result, RefusedFile) and isinstance(result.error, InputError)
    return str(result.error)


def ask(query: str) -> list[dict[str, Any]]:
    with open_store() as store:
        return store.rows(query)


def counted() -> tuple[int, int]:
    """Return the number of probes in the store, and the number counted in the roll-up."""
    (row,) = ask(
        "SELECT (SELECT count() FROM quic_probe) AS probes, (SELECT sum(probes) FROM probe_day) AS rolled_up"
    )
    return int(row["probes"]), int(row["rolled_up"])


def test_a_copy_without_its_run_replaces_no_shard(folder: Path, tmp_path: Path) -> None:
    assert actions(loader.load_files(files(folder))) == ["loaded"] * 3
    copy = shutil.copy(files(folder)[0], tmp_path / "quic_probe.parquet")
    assert "is in the store by shards, such as" in refusal(Path(copy))
    assert counted() == (30, 30)
    assert actions(loader.load_files(files(folder))) == ["unchanged"] * 3


def test_the_run_replaces_what_was_loaded_of_it_without_its_folder(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRSTFLIGHT_RUNS", str(folder.parent))
    copy = shutil.copy(files(folder)[1], tmp_path / "quic_probe.parquet")
    assert actions(loader.load_files([Path(copy)])) == ["loaded"]
    assert counted() == (10, 10)
    assert actions(loader.load_files(files(folder))) == ["replaced", "loaded", "loaded"]
    assert counted() == (30, 30)
    assert actions(loader.load_files(files(folder))) == ["unchanged"] * 3
    name = origin.name_outside(Path(copy))
    logged = ask(f"SELECT rows, toString(state) AS s FROM load_file FINAL WHERE source_file = '{name}'")
    assert logged == [{"rows": 0, "s": "loaded"}]


def test_a_renamed_folder_of_a_run_is_refused(folder: Path) -> None:
    loader.load_files(files(folder))
    renamed = folder.rename(folder.with_name("renamed"))
    assert f"its rows are of run {RUN}, its folder is called renamed" in refusal(files(renamed)[0])
    assert counted() == (30, 30)


def test_a_copy_below_a_run_is_not_loaded(folder: Path) -> None:
    shutil.copytree(folder / "hamburg" / "1", folder / "hamburg" / "1.old")
    (folder / "settings.json").write_text("{}")
    results = loader.load_run_folder(Run(folder))
    assert actions(results) == ["loaded"] * 3
    assert "load its run's folder" in refusal(files(folder / "hamburg" / "1.old")[0])
    assert counted() == (30, 30)


@pytest.mark.parametrize("ended_at", ["begin", "remove"])
def test_a_load_broken_off_of_a_file_that_is_empty_now_is_done_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch, ended_at: str
) -> None:
    loader.load_files(files(folder))
    first = files(folder)[0]
    write(first, [])
    done = getattr(units.Units, ended_at)

    def broken_off(self: units.Units) -> None:
        done(self)
        raise FirstflightError("killed")

    with monkeypatch.context() as patch, pytest.raises(FirstflightError, match="killed"):
        patch.setattr(units.Units, ended_at, broken_off)
        loader.load_files([first])
    assert actions(loader.load_files([first])) == ["replaced" if ended_at == "begin" else "loaded"]
    assert counted() == (20, 20)
    assert actions(loader.load_files(files(folder))) == ["unchanged"] * 3


def test_the_folder_of_a_run_is_no_part_of_a_statement(tmp_path: Path) -> None:
    with open_store(write=True) as store:
        for name in ("good", "x' OR '1'='1", "O'Brien"):
            run = Run(tmp_path / "runs" / name)
            run.path.mkdir(parents=True)
            for state in ("running", "done"):
                run.layout.manifest.write_text(json.dumps({**MANIFEST, "state": state}))
                run_row.load(store, run)
        assert [row["n"] for row in store.rows("SELECT count() AS n FROM run WHERE state = 'done'")] == [3]


@pytest.mark.parametrize("change", [{"started_at": None}, {"started_at": "soon"}, {"state": None}])
def test_a_manifest_without_time_or_state_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    run = Run(tmp_path / "run")
    run.path.mkdir()
    manifest = {name: value for name, value in {**MANIFEST, **change}.items() if value is not None}
    run.layout.manifest.write_text(json.dumps(manifest))
    with open_store(write=True) as store, pytest.raises(InputError, match="give the run its own manifest"):
        run_row.load(store, run)


def test_names_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "quic_probe.parquet", many(3))
    content = path.read_bytes()
    # This also changes statistics and dictionary. Pages have no checksum, so the reader does not reject them.
    path.write_bytes(content.replace(RUN.encode(), b"\xff" + RUN.encode()[1:]))
    assert "some text is not UTF-8" in refusal(path)


class CatchUpRecorder(Recorder):
    """A Recorder that also records which tables were caught up."""

    def catch_up(self, table: str) -> None:
        self.executed.append(f"wait {table}")


def test_derived_rows_of_other_loaders_are_awaited_before_counting() -> None:
    store = CatchUpRecorder([{"n": 1}], [{"n": 0}], [{"n": 7}])
    derived.remove(store, "quic_probe", "run = 'a'")  # type: ignore[arg-type]
    assert derived.complete(store, "quic_probe", "run = 'a'", 7)  # type: ignore[arg-type]
    waits = [text for text in store.executed if text.startswith("wait")]
    assert waits == ["wait probe_day", "wait probe_unit", "wait probe_day"]
    assert store.executed[1].startswith("ALTER TABLE firstflight.probe_day")
