"""Foreign files and folders with names of our runs: without --replace they neither replace nor add rows."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from firstflight.run.run import Run
from store import open_store
from store.load import loader
from tests.store.rows import RUN, answer, many, write

pytestmark = pytest.mark.usefixtures("emptied_tables")

MANIFEST = {
    "id": RUN,
    "name": "ours",
    "state": "done",
    "started_at": "2026-11-20T06:00:00+00:00",
    "cid_key": "00112233445566778899aabbccddeeff",
}


def folder_of(root: Path, rows: list[dict[str, Any]], **manifest: object) -> Path:
    """Make the folder of the run below `root`."""
    folder = root / RUN
    write(folder / "hamburg" / "1" / "probe" / "quic_probe.parquet", rows)
    (folder / "manifest.json").write_text(json.dumps(MANIFEST | manifest))
    (folder / "settings.json").write_text("{}")
    return folder


@pytest.fixture
def ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Our run of 500 probes, loaded."""
    monkeypatch.setenv("FIRSTFLIGHT_RUNS", str(tmp_path / "runs"))
    folder = folder_of(tmp_path / "runs", many(500))
    loader.load_run_folder(Run(folder))
    return folder


def stored() -> list[dict[str, Any]]:
    """Return all that a stranger might change."""
    with open_store() as store:
        return store.rows(
            "SELECT (SELECT count() FROM quic_probe) AS probes, (SELECT count() FROM dns_answer) AS answers, "
            "(SELECT sum(probes) FROM probe_day) AS rolled_up, (SELECT any(name) FROM run) AS name, "
            "(SELECT count() FROM run) AS runs"
        )


def one_row(place: Path) -> list[Path]:
    return [write(place / "quic_probe.parquet", many(1))]


def other_vantage(place: Path) -> list[Path]:
    return [write(place / "quic_probe.parquet", many(1, vantage="mars"))]


def other_kind(place: Path) -> list[Path]:
    return [write(place / "dns_answer.parquet", [answer("a.example", "A")], "dns_answer")]


def in_a_run(place: Path) -> list[Path]:
    return sorted(folder_of(place, many(1), name="theirs").rglob("*.parquet"))


def empty_in_a_run(place: Path) -> list[Path]:
    """No rows, but the name that our file has in the load log."""
    return sorted(folder_of(place, [], name="theirs").rglob("*.parquet"))


def in_another_run(place: Path) -> list[Path]:
    folder = folder_of(place, many(1))
    return sorted(folder.rename(folder.with_name("20261120T070000Z-ffffff")).rglob("*.parquet"))


@pytest.mark.parametrize(
    "given", [one_row, other_vantage, other_kind, in_a_run, empty_in_a_run, in_another_run]
)
def test_a_file_of_another_origin_changes_nothing(
    ours: Path, tmp_path: Path, given: Callable[[Path], list[Path]]
) -> None:
    before = stored()
    assert before == [{"probes": 500, "answers": 0, "rolled_up": 500, "name": "ours", "runs": 1}]
    paths = given(tmp_path / "stranger")
    (result,) = loader.load_files(paths)
    assert isinstance(result, loader.RefusedFile)
    assert str(paths[0]) in str(result.error)
    if given is not in_another_run:
        assert "another origin" in str(result.error) and "--replace" in str(result.error)
    assert stored() == before
    # Our file may still replace its rows.
    write(ours / "hamburg" / "1" / "probe" / "quic_probe.parquet", many(400))
    assert [type(result) for result in loader.load_run_folder(Run(ours))] == [loader.Loaded]
    assert stored()[0]["probes"] == 400


@pytest.mark.parametrize("cid_key", [MANIFEST["cid_key"], "f" * 32, None])
def test_a_folder_of_another_origin_for_our_run_changes_nothing(
    ours: Path, tmp_path: Path, cid_key: str | None
) -> None:
    assert ours.is_dir()
    before = stored()
    folder = folder_of(tmp_path / "stranger", many(1), name="theirs", cid_key=cid_key)
    results = loader.load_run_folder(Run(folder))
    assert [type(result) for result in results] == [loader.RefusedFile] * 2, "its probes and its manifest"
    assert stored() == before


def test_every_unit_of_a_file_is_checked(tmp_path: Path) -> None:
    """The store lacks the first unit of the second file. The other unit came from the first file."""
    loader.load_files([write(tmp_path / "a" / "quic_probe.parquet", many(2))])
    rows = [*many(1, vantage="berlin"), *many(1)]
    (result,) = loader.load_files([write(tmp_path / "b" / "quic_probe.parquet", rows)])
    assert isinstance(result, loader.RefusedFile)
    assert "vantage hamburg, repetition 1 is in the store from another origin" in str(result.error)
    assert stored()[0]["probes"] == 2


def test_an_earlier_load_of_another_origin_does_not_block_ours(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIRSTFLIGHT_RUNS", str(tmp_path / "runs"))
        for given in (one_row(tmp_path / "a"), in_a_run(tmp_path / "b")):
            loader.load_files(given)
        assert stored()[0]["probes"] == 1
        folder = folder_of(tmp_path / "runs", many(500))
        results = loader.load_run_folder(Run(folder))
        assert [result.action for result in results if isinstance(result, loader.Loaded)] == ["replaced"]
        (refused,) = loader.load_files(one_row(tmp_path / "a"))
        assert isinstance(refused, loader.RefusedFile)
        assert stored()[0]["probes"] == 500


def test_a_copy_of_our_file_does_not_become_its_owner(ours: Path, tmp_path: Path) -> None:
    """A copy has our content and loads. After a change it counts as foreign."""
    (tmp_path / "copy").mkdir()
    probes = ours / "hamburg" / "1" / "probe" / "quic_probe.parquet"
    copy = Path(shutil.copy(probes, tmp_path / "copy"))
    with open_store(write=True) as store:
        store.execute("ALTER TABLE quic_probe DELETE WHERE 1")
    (restored,) = loader.load_files([copy])
    assert isinstance(restored, loader.Loaded) and restored.action == "loaded"
    write(copy, many(1))
    (changed,) = loader.load_files([copy])
    assert isinstance(changed, loader.RefusedFile)
    assert stored()[0]["probes"] == 500


def test_our_run_keeps_its_origin_when_its_folder_moves(
    ours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = Path(shutil.move(ours, tmp_path / "disk2" / RUN))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / RUN).symlink_to(moved)
    monkeypatch.setenv("FIRSTFLIGHT_RUNS", str(tmp_path / "elsewhere"))
    write(moved / "hamburg" / "1" / "probe" / "quic_probe.parquet", many(20))
    (result,) = loader.load_run_folder(Run.open(RUN))
    assert isinstance(result, loader.Loaded) and result.action == "replaced"


def test_rows_of_an_older_version_belong_to_the_run_that_they_name(ours: Path, tmp_path: Path) -> None:
    """Entries without an origin: our folder takes them over, a stranger's file or folder does not."""
    with open_store(write=True) as store:
        store.execute("ALTER TABLE load_file UPDATE origin = '' WHERE 1")
    before = stored()
    for given in (one_row(tmp_path / "a"), in_a_run(tmp_path / "b")):
        (result,) = loader.load_files(given)
        assert isinstance(result, loader.RefusedFile)
    results = loader.load_run_folder(Run(folder_of(tmp_path / "c", many(1), name="theirs")))
    assert [type(result) for result in results] == [loader.RefusedFile] * 2
    assert stored() == before
    (unchanged,) = loader.load_run_folder(Run(ours))
    assert isinstance(unchanged, loader.Loaded) and unchanged.action == "unchanged"
    with open_store() as store:
        found = store.rows("SELECT DISTINCT startsWith(origin, 'run:') AS ours FROM load_file FINAL")
    assert found == [{"ours": 1}]
