"""Processors of guests: each has one, and what runs beside them keeps all."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from testbed.guest import processor

SHOW = [sys.executable, "-S", "-c", "import os; print(*os.sched_getaffinity(0))"]


def test_each_guest_has_a_processor_until_none_is_left(tmp_path: Path) -> None:
    mine = os.sched_getaffinity(0)
    with ExitStack() as stack:
        given = [stack.enter_context(processor.reserved(tmp_path)) for _ in range(len(mine) + 1)]
        assert given == [*({number} for number in sorted(mine)), mine]
    with processor.reserved(tmp_path) as again:
        assert again == {min(mine)}


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with processor.reserved(tmp_path / "file") as processors:
        assert processors == os.sched_getaffinity(0)


def test_what_is_started_meanwhile_is_on_it(tmp_path: Path) -> None:
    mine = os.sched_getaffinity(0)
    with processor.reserved(tmp_path) as processors, processor.only(processors):
        shown = subprocess.run(SHOW, capture_output=True, text=True, check=True).stdout
    assert {int(number) for number in shown.split()} == processors
    assert os.sched_getaffinity(0) == mine
