"""Segments of an engine after a power cut, and how the next start of the stage treats them."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from firstflight.errors import Interrupted, OutputError
from scanner.driver import leftovers
from scanner.driver.segments import closed_segments, has_segments, read_segment

ROWS = pa.table({"target": pa.array([2, 3], pa.uint32())})
Cut = Callable[[Path], object]


def segment(path: Path, at_s: int) -> None:
    """Write a segment that was closed at `at_s`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, ROWS.schema) as writer:
        writer.write_table(ROWS)
    os.utime(path, (at_s, at_s))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A stage's folder with three segments, each closed one second after its segment of certificates."""
    for number in (1, 2, 3):
        name = f"seg-{number:06}.arrow"
        segment(tmp_path / "segments" / "certificate" / name, 10 * number)
        segment(tmp_path / "segments" / name, 10 * number + 1)
    (tmp_path / "segments" / "seg-000004.arrow.part").write_bytes(b"open")
    (tmp_path / "summary.json").write_text('{"sent": 6}')
    return tmp_path


def emptied(path: Path) -> None:
    """Truncate a file to zero bytes, as a power cut does. Its times do not change."""
    cut_to(path, 0)


def cut_to(path: Path, size: int) -> None:
    times = path.stat()
    os.truncate(path, size)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def halved(path: Path) -> None:
    cut_to(path, path.stat().st_size // 2)


def settled(folder: Path) -> list[str]:
    return leftovers.settle(folder, lambda: pytest.fail("nothing to wait for"))


def names(folder: Path, pattern: str = "*.cut") -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob(pattern))


@pytest.mark.parametrize("cut", [emptied, halved])
@pytest.mark.parametrize(
    ("files", "aside"),
    [
        ([], []),
        (["segments/seg-000003.arrow"], ["segments/seg-000003.arrow"]),
        (
            ["segments/seg-000002.arrow", "segments/seg-000003.arrow"],
            ["segments/seg-000002.arrow", "segments/seg-000003.arrow"],
        ),
        (["summary.json"], ["summary.json"]),
        # Rows that lost their certificates are measured again; earlier rows are kept.
        (
            ["segments/certificate/seg-000003.arrow"],
            ["segments/certificate/seg-000003.arrow", "segments/seg-000003.arrow"],
        ),
        (
            ["segments/certificate/seg-000002.arrow", "segments/certificate/seg-000003.arrow"],
            [
                *("segments/certificate/seg-000002.arrow", "segments/certificate/seg-000003.arrow"),
                *("segments/seg-000002.arrow", "segments/seg-000003.arrow"),
            ],
        ),
    ],
)
def test_incomplete_files_are_set_aside(folder: Path, cut: Cut, files: list[str], aside: list[str]) -> None:
    for name in files:
        cut(folder / name)
    warnings = settled(folder)
    assert names(folder) == [f"{name}.cut" for name in aside]
    assert len(warnings) == bool(aside)
    count = "1 file was" if len(aside) == 1 else f"{len(aside)} files were"
    assert all(warning.startswith(f"in {folder} {count} cut short") for warning in warnings)
    left = closed_segments(folder / "segments")
    assert len(left) == 3 - sum(name.startswith("segments/seg") for name in aside)
    assert all(read_segment(path).equals(ROWS) for path in left)
    assert settled(folder) == [], "the next start finds nothing"


def test_an_empty_segment_is_set_aside_wherever_it_is_and_a_broken_one_at_the_end(folder: Path) -> None:
    """A broken segment before an intact one does not result from a power cut.

    Its reader reports it, and no probe is sent again.
    """
    emptied(folder / "segments" / "seg-000001.arrow")
    halved(folder / "segments" / "seg-000002.arrow")
    assert len(settled(folder)) == 1
    assert names(folder) == ["segments/seg-000001.arrow.cut"]


@pytest.mark.parametrize(
    ("left", "expected"),
    [
        (["segments/seg-000001.arrow"], True),
        (["segments/certificate/seg-000001.arrow"], True),  # killed before the segment of rows was closed
        (["segments/seg-000001.arrow.part", "segments/seg-000001.arrow.cut"], False),
        ([], False),
    ],
)
def test_an_engine_has_started_when_it_closed_a_segment_of_any_kind(
    tmp_path: Path, left: list[str], expected: bool
) -> None:
    for name in left:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert has_segments(tmp_path / "segments") is expected


def test_nothing_is_set_aside_while_an_engine_writes(folder: Path) -> None:
    emptied(folder / "segments" / "seg-000003.arrow")

    def interrupted() -> None:
        raise Interrupted("stop")

    descriptor = os.open(folder / "segments", os.O_RDONLY)  # locked as an engine locks it
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with pytest.raises(Interrupted):
            leftovers.settle(folder, interrupted)
    finally:
        os.close(descriptor)
    assert names(folder) == []


def test_a_folder_that_does_not_exist_has_no_leftovers(tmp_path: Path) -> None:
    assert settled(tmp_path / "none") == [] and not (tmp_path / "none").exists()


def test_a_file_that_cannot_be_renamed_is_named(folder: Path) -> None:
    path = folder / "segments" / "seg-000003.arrow"
    emptied(path)
    (folder / "segments" / "seg-000003.arrow.cut").mkdir()
    with pytest.raises(OutputError, match=rf"cannot write {path}"):
        settled(folder)
