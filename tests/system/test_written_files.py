"""Atomically written files: complete or absent, and on the disk before they have their name."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from firstflight import settings
from firstflight.errors import OutputError
from firstflight.run.run import Run
from firstflight.system import files
from tests import minimal


class WriteStep(NamedTuple):
    """A step: `sync` or `rename`, the file, and the size at that time."""

    what: str
    name: str
    size: int


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[WriteStep]:
    """Record the synced and renamed files, in order."""
    found: list[WriteStep] = []
    fsync, replace = os.fsync, Path.replace

    def synced(descriptor: int) -> None:
        fsync(descriptor)
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        found.append(WriteStep("sync", path.name, path.stat().st_size))

    def renamed(path: Path, target: Path) -> Path:
        found.append(WriteStep("rename", target.name, path.stat().st_size))
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", renamed)
    return found


def replaced(path: Path) -> None:
    with files.replacing(path) as part:
        part.write_text("12345")


@pytest.mark.parametrize(
    ("write", "size"),
    [
        (replaced, 5),
        (lambda path: files.write_text(path, "1234"), 4),
        (lambda path: files.write_json(path, 12), 3),
        (lambda path: files.write_secret(path, "123456"), 6),
    ],
)
def test_the_content_is_on_the_disk_before_the_name(
    tmp_path: Path, steps: list[WriteStep], write: Callable[[Path], None], size: int
) -> None:
    write(tmp_path / "file")
    (sync, rename) = steps
    assert (sync.what, sync.size) == ("sync", size) and sync.name.endswith(".part")
    assert rename == WriteStep("rename", "file", size)


def test_temporary_files_are_not_synced(tmp_path: Path, steps: list[WriteStep]) -> None:
    files.write_json(tmp_path / "progress.json", {}, lasting=False)
    assert [step.what for step in steps] == ["rename"]


def test_a_disk_that_fails_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    files.write_text(path, "before")

    def fails(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OutputError, match=f"cannot write {path}: Input/output error"):
        files.write_text(path, "after")
    assert path.read_text() == "before" and [*tmp_path.iterdir()] == [path]


def test_outputs_of_a_stage_are_synced_before_its_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: list[WriteStep]
) -> None:
    monkeypatch.setenv("FIRSTFLIGHT_RUNS", str(tmp_path / "runs"))
    run = Run.create(*settings.load(minimal.write(tmp_path), []), [])
    out = run.layout.targets
    with run.stage("targets") as report:
        out.write_bytes(b"by another program")
        del steps[:]
        run.add_output(report, out)
    assert steps[0] == WriteStep("sync", out.name, len("by another program"))
    assert [step.what for step in steps if step.name != out.parent.name] == ["sync", "sync", "rename"]
    assert run.done("targets")
