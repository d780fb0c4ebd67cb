"""Processors of guests: each guest has one processor; other programs keep all of the processors."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from testbed.guest import processor

SHOW = [sys.executable, "-S", "-c", "import os; print(*os.sched_getaffinity(0))"]


def test_each_guest_has_a_processor_while_any_is_free(tmp_path: Path) -> None:
    affinity = os.sched_getaffinity(0)
    with ExitStack() as stack:
        given = [stack.enter_context(processor.reserved(tmp_path)) for _ in range(len(affinity) + 1)]
        assert given == [*({number} for number in sorted(affinity)), affinity]
    with processor.reserved(tmp_path) as again:
        assert again == {min(affinity)}


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with processor.reserved(tmp_path / "file") as processors:
        assert processors == os.sched_getaffinity(0)


def test_processes_started_in_the_block_run_on_it(tmp_path: Path) -> None:
    affinity = os.sched_getaffinity(0)
    with processor.reserved(tmp_path) as processors, processor.restricted_to(processors):
        shown = subprocess.run(SHOW, capture_output=True, text=True, check=True).stdout
    assert {int(number) for number in shown.split()} == processors
    assert os.sched_getaffinity(0) == affinity
