"""The wall clock is set while a campaign or an engine runs.

A campaign waits no longer than the interval in its settings. An engine continues, with one row for each
target and without negative times.
"""

from __future__ import annotations

import json
import os
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from downloader.files.targets import Target
from downloader.shared_limits import TURN_IN_PAUSES, DownloadTurn
from firstflight.system import binaries
from orchestration.local.campaign import until_due_s
from tests.waiting import PATIENCE_S, until

BEFORE = datetime(2026, 11, 20, 6, tzinfo=UTC)
HOUR = timedelta(hours=1)
TARGETS = 40


@pytest.mark.parametrize(
    ("now", "wait_s"),
    [
        (BEFORE + timedelta(minutes=20), 2400),
        (BEFORE + HOUR, 0),
        (BEFORE + timedelta(days=400), 0),
        (BEFORE - timedelta(days=400), 3600),
        (BEFORE, 3600),
    ],
)
def test_a_campaign_waits_no_longer_than_its_interval(now: datetime, wait_s: float) -> None:
    assert until_due_s(BEFORE, HOUR, now) == wait_s


@pytest.mark.parametrize("jump_s", [-400 * 86400.0, -3600.0, 0.0, 3600.0, 400 * 86400.0])
def test_turns_of_downloads_do_not_depend_on_clock_jumps(jump_s: float) -> None:
    """A turn depends only on the time of day, so a jump of the clock costs at most one round of turns."""
    target = Target(1, "https://a.test/file", "a.test", "a.test", "198.18.48.1", 443, "/file")
    for index in range(3):
        turn = DownloadTurn(index, 3, 60.0)
        wait_s = turn.begins_in(target, 1_795_154_400.0 + jump_s)
        assert 0 <= wait_s <= turn.count * TURN_IN_PAUSES * turn.pause_s
        assert turn.begins_in(target, 1_795_154_400.0 + jump_s + wait_s) == 0


@pytest.mark.parametrize("jump_s", [-3600, 3600])
@pytest.mark.parametrize(
    "program", ["firstflight-prober", "firstflight-handshake", "firstflight-tcp-options"]
)
def test_an_engine_continues(tmp_path: Path, program: str, jump_s: int) -> None:
    """libfaketime changes the wall clock of the process, not its monotonic clock. Stamps are the kernel's."""
    (library,) = Path("/usr/lib").glob("*/faketime/libfaketime.so.1")
    setting, segments, targets = tmp_path / "faketime", tmp_path / "segments", tmp_path / "targets.csv"
    setting.write_text("+0\n")
    segments.mkdir()
    lines = [f"127.0.0.1,n{number}.example,9\n" for number in range(TARGETS)]
    targets.write_text("".join(["ip,domain,port\n", *lines]))
    command: list[object] = [binaries.find(program), "--targets", targets, "--allow-net", "127.0.0.0/8"]
    command += ["--rate", "20", "--per-address-rate", "0", "--per-prefix-rate", "0"]
    command += ["--segments", segments, "--format", "jsonl"]
    if program != "firstflight-tcp-options":
        command += ["--contact", "https://contact.example/"]
    faked = {
        "LD_PRELOAD": str(library),
        "FAKETIME_TIMESTAMP_FILE": str(setting),
        "FAKETIME_NO_CACHE": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }
    process = subprocess.Popen(
        [*map(str, command)], env=os.environ | faked, stdout=subprocess.PIPE, text=True
    )
    until(lambda: [*segments.glob("seg-*.arrow")] or process.poll() is not None, "no segment")
    assert process.poll() is None, "the jump is too late"
    setting.write_text(f"{jump_s:+}\n")
    output, _ = process.communicate(timeout=PATIENCE_S)
    rows = [json.loads(line) for line in output.splitlines()]
    assert (process.returncode, len(rows)) == (0, TARGETS)
    assert {row["outcome"] for row in rows} == {"refused"}
    times = [value for row in rows for name, value in row.items() if name.endswith("_us")]
    assert min((value for value in times if isinstance(value, int | float)), default=0) >= 0
