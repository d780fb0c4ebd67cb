"""Removal of a stage's segments: first, the record files with their rows are complete and on the disk."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firstflight.errors import FirstflightError, OutputError
from scanner.records.finished import remove_segments

ROWS = 3


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A stage's folder: record files with ROWS rows, report, segments."""
    table = pa.table({"domain": [f"n{n}.example.test" for n in range(ROWS)]})
    for name in ("quic_handshake", "certificate"):
        pq.write_table(table, tmp_path / f"{name}.parquet")
    (tmp_path / "report.json").write_text("{}")
    (tmp_path / "segments").mkdir()
    (tmp_path / "segments" / "seg-1.arrow").touch()
    return tmp_path


def remove(folder: Path, rows: int | None = ROWS) -> None:
    remove_segments(folder / "quic_handshake.parquet", rows, folder / "segments")


def kept(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "segments").rglob("*"))


@pytest.mark.parametrize("rows", [0, ROWS - 1, ROWS + 1, None])
def test_segments_stay_when_the_record_file_has_other_rows(folder: Path, rows: int | None) -> None:
    with pytest.raises(FirstflightError, match=rf"has {ROWS} rows instead of {rows}: the segments are kept"):
        remove(folder, rows)
    assert kept(folder) == ["seg-1.arrow"]


@pytest.mark.parametrize("content", [None, b"", b"PAR1 and no footer"])
def test_segments_stay_when_the_record_file_cannot_be_read(folder: Path, content: bytes | None) -> None:
    path = folder / "quic_handshake.parquet"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(FirstflightError, match="the segments are kept"):
        remove(folder)
    assert kept(folder) == ["seg-1.arrow"]


def test_files_that_replace_segments_are_synced_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """These are the stage's record files, which replace the segments, the report, and their names."""
    synced: list[Path] = []
    fsync, rmtree = os.fsync, shutil.rmtree

    def noted(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        fsync(descriptor)

    def removed(path: Path) -> None:
        names = ("quic_handshake.parquet", "certificate.parquet", "report.json", "")
        assert set(synced) == {folder / name for name in names}
        rmtree(path)

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(shutil, "rmtree", removed)
    remove(folder)
    assert not (folder / "segments").exists()
    remove(folder)  # as after a kill before the report: the segments are already removed


def test_segments_stay_when_the_disk_fails(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OutputError, match="Input/output error"):
        remove(folder)
    assert kept(folder) == ["seg-1.arrow"]
