"""Attribution of CPU time and memory to stages (bench/campaigns/stage_costs.py)."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.campaigns import stage_costs
from bench.campaigns.stage_costs import Account, Sample, program_of

TICKS = os.sysconf("SC_CLK_TCK")
MB = 1_000_000
ROOT = ("/venv/bin/python3", "-m", "cli", "campaign", "run")
LOAD = ("/venv/bin/python3", "-m", "cli", "stage", "load")
ENGINE = ("/target/firstflight-resolve", "--names", "names.txt")

# Uses 60 MB for at least half a CPU second, until it has been sampled. Then a child does the same without the
# memory.
OUTER = """
import subprocess, sys, time
from pathlib import Path
inner, ready, sampled = sys.argv[1:4]
room = bytearray(b"x") * 60_000_000
Path(ready).touch()
while time.process_time() < 0.5 or not Path(sampled).exists(): time.sleep(0)
subprocess.run([sys.executable, "-c", inner, *sys.argv[4:]], check=True)
"""
INNER = """
import sys, time
from pathlib import Path
while time.process_time() < 0.5 or not Path(sys.argv[1]).exists(): time.sleep(0)
"""


def word_after_stage(words: Sequence[str]) -> str | None:
    return words[words.index("stage") + 1] if "stage" in words else None


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("/x/target/release/firstflight-prober", "--feed"), "prober"),
        (("tcpdump", "-i", "lo"), "tcpdump"),
        (("/usr/bin/python3.11", "-P"), "Python"),
        (("git", "describe"), "other"),
        ((), "other"),
    ],
)
def test_programs_have_short_names(words: Sequence[str], name: str) -> None:
    assert program_of(words) == name


def test_a_process_counts_for_the_stage_of_its_parent_until_its_end() -> None:
    account = Account(word_after_stage, "campaign")
    account.add(
        {
            1: Sample(0, ROOT, 10, 0, 5 * MB),
            2: Sample(1, LOAD, 100, 0, 30 * MB),
            3: Sample(2, ENGINE, 40, 0, 80 * MB),
        },
        100.0,
    )
    # The engine used 7 more ticks before it exited.
    account.add({1: Sample(0, ROOT, 11, 0, 5 * MB), 2: Sample(1, LOAD, 120, 47, 20 * MB)}, 101.0)
    # The stage used 3 more ticks after the last sample.
    account.add({1: Sample(0, ROOT, 12, 170, 5 * MB)}, 102.0)
    account.finish(184 / TICKS)
    load, campaign = account.costs["load"], account.costs["campaign"]
    assert {name: round(used * TICKS) for name, used in load.cpu_s.items()} == {"Python": 123, "engine": 47}
    assert (load.peak_bytes, load.peak_program, load.wall_s) == (80 * MB, "engine", 1.0)
    assert round(campaign.all_cpu_s * TICKS) == 14  # including two ticks that are in no sample
    assert campaign.wall_s == 2.0


def test_a_child_that_no_sample_has_is_counted_for_its_parents_stage() -> None:
    account = Account(word_after_stage, "campaign")
    account.add({1: Sample(0, ROOT, 0, 0, 0), 2: Sample(1, LOAD, 0, 0, 0)}, 1.0)
    account.add({1: Sample(0, ROOT, 0, 0, 0), 2: Sample(1, LOAD, 0, 5, 0)}, 2.0)
    assert dict(account.costs["load"].cpu_s) == {"other": 5 / TICKS}


def test_a_real_tree_of_processes_is_measured(tmp_path: Path) -> None:
    ready, outer_sampled, inner_sampled = (tmp_path / name for name in ("ready", "outer", "inner"))
    samples_when_ready = 0

    def stage_of(words: Sequence[str]) -> str | None:
        nonlocal samples_when_ready
        if INNER in words[:3]:
            inner_sampled.touch()
            return "inner"
        samples_when_ready += ready.exists()
        if samples_when_ready > 1:  # the first sample may have been taken before
            outer_sampled.touch()
        return None

    paths = [str(path) for path in (ready, outer_sampled, inner_sampled)]
    argv = [sys.executable, "-c", OUTER, INNER, *paths]
    costs = stage_costs.run(argv, stage_of, "outer", env=os.environ, log=tmp_path / "log")
    # Each exits after half a CPU second. The start of Python needs additional time.
    assert costs["outer"].all_cpu_s > 0.4 and costs["inner"].all_cpu_s > 0.4
    assert 60 * MB < costs["outer"].peak_bytes < 120 * MB
    assert costs["inner"].peak_bytes < 60 * MB
    assert costs["outer"].wall_s >= costs["inner"].wall_s >= 0


def test_a_command_that_fails_is_reported_with_its_last_line(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", "import sys; print('first', flush=True); sys.exit('no disk')"]
    with pytest.raises(SystemExit, match="ended with status 1: no disk"):
        stage_costs.run(argv, lambda _: None, "outer", env=os.environ, log=tmp_path / "log")


def test_bytes_below_counts_files_of_folders(tmp_path: Path) -> None:
    before = stage_costs.bytes_below([tmp_path])
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_bytes(bytes(range(256)) * 400)
    assert stage_costs.bytes_below([tmp_path, tmp_path / "missing"]) - before >= 102_400
