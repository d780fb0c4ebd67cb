"""A line from another program: complete, truncated, late or endless."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from firstflight.errors import Interrupted
from firstflight.system import lines


@pytest.fixture
def pipe() -> Iterator[tuple[IO[bytes], int]]:
    """The read end of a pipe, and the write end."""
    near, far = os.pipe()
    with os.fdopen(near, "rb", buffering=0) as reader:
        yield reader, far


def test_a_line_may_arrive_in_pieces(pipe: tuple[IO[bytes], int]) -> None:
    reader, far = pipe
    os.write(far, b"one")
    watched: list[bytes] = []

    def write_the_rest() -> None:
        # The first call is before the first read, the second while the line is incomplete.
        if len(watched) == 1:
            os.write(far, b" line\n")
        watched.append(b"")

    assert lines.next_line(reader, 60, watch=write_the_rest, every_s=0.001) == b"one line\n"
    os.write(far, b"half")
    os.close(far)
    assert lines.next_line(reader, 60) == b"half"
    assert lines.next_line(reader, 60) == b""


def test_all_lines_are_complete_and_watched(pipe: tuple[IO[bytes], int]) -> None:
    reader, far = pipe
    pieces = [b"one\ntw", b"o\n\nthree\nhalf"]
    watched: list[bytes] = []

    def write_a_piece() -> None:
        watched.append(b"")
        if len(watched) in (1, 3):  # before the first read, and after the first line
            os.write(far, pieces.pop(0))
            if not pieces:
                os.close(far)

    found = lines.all_lines(reader, write_a_piece, every_s=0.001)
    assert list(found) == [b"one", b"two", b"", b"three"]
    # Before each read, the last of which finds the end, and before each line.
    assert len(watched) == 3 + 4


def test_waiting_has_an_end(pipe: tuple[IO[bytes], int]) -> None:
    reader, far = pipe
    with pytest.raises(TimeoutError, match=r"nothing for 0\.01 s"):
        lines.next_line(reader, 0.01)

    def stop() -> None:
        raise Interrupted("stopped")

    with pytest.raises(Interrupted, match="stopped"):
        lines.next_line(reader, 60, watch=stop)
    os.close(far)


def test_a_line_without_end_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "long"
    file.write_bytes(b"x" * (lines.LONGEST + 1))
    # epoll does not support regular files. With poll(2), they are always ready.
    with file.open("rb", buffering=0) as reader, pytest.raises(lines.LineTooLong, match=str(lines.LONGEST)):
        lines.next_line(reader, 60)
    with file.open("rb", buffering=0) as reader, pytest.raises(lines.LineTooLong, match=str(lines.LONGEST)):
        list(lines.all_lines(reader, lambda: None))


@pytest.mark.parametrize(
    ("log", "last"), [(b"one\n two \n\n  \n", "two"), (b"a\xffb", "a\ufffdb"), (b"\n", ""), (None, "")]
)
def test_the_last_line_of_a_log(tmp_path: Path, log: bytes | None, last: str) -> None:
    if log is not None:
        (tmp_path / "log").write_bytes(log)
    assert lines.last_line(tmp_path / "log") == last
