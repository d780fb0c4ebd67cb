"""A capture that dies and a disk that fills up in the middle of downloads: one sentence, nothing lost."""

from __future__ import annotations

import os
import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from firstflight.run.run import Run
from tests.download.runs import FILES, HERE, SETS, child_of, pause, stage, wait_for_answers
from tests.download.world import DownloadWorld

PLANNED = len(FILES) * (1 + len(SETS))


def every_download_is_one_row(run: Run) -> Counter[str]:
    """Return how often each outcome is in the stage's record file, which has each planned download once."""
    rows = pq.read_table(run.layout.downloads(run.key("here", 1))).to_pylist()
    assert set(Counter((row["url"], row["ip"], row["set"]) for row in rows).values()) == {1}
    assert len(rows) == PLANNED
    return Counter(row["outcome"] for row in rows)


@pytest.mark.parametrize("name", ["warmup", "bl"])
def test_a_capture_that_dies(world: DownloadWorld, run: Callable[..., Run], name: str) -> None:
    """The stage uses the packets captured until then. It stops at the next download that needs the capture,
    and the next start does the remaining downloads."""
    made = run("fixed_order = true")
    key = made.key("here", 1)
    folder = made.layout.stage("download", key)
    pause(made, 5)  # the next download of this capture is at least two pauses away
    process = world.start("stage", "download", "--run", made.id, *HERE, stderr=subprocess.PIPE)
    capture = child_of(process.pid, f"{folder / name}.pcap.part")
    wait_for_answers(process, folder / "answers.jsonl", 2)
    os.kill(capture, signal.SIGKILL)
    _, printed = process.communicate()
    stderr = printed.decode()
    assert process.returncode == 1, stderr
    assert "Traceback" not in stderr
    assert "tcpdump ended while the probe ran" in stderr
    pause(made, 0.05)
    stage(world, made)
    outcomes = every_download_is_one_row(made)
    # Two files have an address. At most one file's downloads were cut off, after at least the warm-up.
    assert outcomes["no_address"] == len(SETS) + 1
    assert outcomes["done"] + outcomes["skipped"] == PLANNED - len(SETS) - 1
    assert outcomes["skipped"] <= len(SETS) + 1


SCRIPT = """
mount -t tmpfs -o size=200k none {folder}
"$@"
status=$?
mount -o remount,size=50m {folder}
test $status -eq 3 || exit 99
"$@" || exit 98
cp -a {folder}/. {kept}
"""


def test_a_full_disk(world: DownloadWorld, run: Callable[..., Run], tmp_path: Path) -> None:
    """Captures of the first downloads fill the disk. With free space, the next start does the others."""
    made = run()
    folder = made.layout.stage("download", made.key("here", 1))
    folder.mkdir(parents=True)
    (tmp_path / "kept").mkdir()
    firstflight = str(Path(".venv/bin/firstflight").absolute())
    argv = [firstflight, "stage", "download", "--run", made.id, *HERE]
    script = SCRIPT.format(folder=folder, kept=tmp_path / "kept")
    done = subprocess.run(
        world.enter("v", ["unshare", "--mount", "sh", "-c", script, "sh", *argv]),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "full" in done.stderr or "No space left on device" in done.stderr
    folder.rmdir()
    (tmp_path / "kept").rename(folder)
    outcomes = every_download_is_one_row(made)
    assert outcomes["done"] + outcomes["skipped"] + outcomes["no_address"] == PLANNED
    assert outcomes["done"] >= 1 + len(SETS)
