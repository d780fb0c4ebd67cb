"""What a series has to do, and what it keeps of results that are there."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cli.testbed import command
from firstflight.errors import InputError, UsageError
from testbed import block, guest, record_file, same, series, stacks, trial_row
from testbed.block import Block
from testbed.cell import Cell

CELL = Cell(client="quiche", server="quiche", answering="iack")
NOT_HERE = Cell(client="picoquic", server="quiche", answering="iack")


def left(out: Path, one: Block, outcome: str = "done", **more: Any) -> Path:
    """Leave the folder of a block, as a run does, and return it."""
    folder = out / one.experiment / one.name
    folder.mkdir(parents=True)
    row = trial_row.without_trial(one.experiment, one.cell, 0, outcome, None) | {"seed": one.seed} | more
    numbers = range(one.first, one.last + 1)
    lines = [json.dumps({**row, "repetition": number}) + "\n" for number in numbers]
    (folder / block.ROWS).write_text("".join(lines), encoding="utf-8")
    return folder


def planned(out: Path, repetitions: int, cell: Cell = CELL, *, resume: bool = True) -> series.Plan:
    return series.plan(out, "own", [cell], repetitions, resume=resume)


@pytest.mark.parametrize(
    ("there", "repetitions", "missing"),
    [
        ([], 120, [(1, 50), (51, 100), (101, 120)]),
        ([(1, 10)], 100, [(11, 50), (51, 100)]),
        ([(1, 50), (51, 60)], 100, [(61, 100)]),
        ([(3, 4), (51, 100)], 60, [(1, 2), (5, 50)]),
        ([(1, 50)], 10, []),
    ],
)
def test_each_repetition_is_done_once(
    tmp_path: Path, there: list[tuple[int, int]], repetitions: int, missing: list[tuple[int, int]]
) -> None:
    for first, last in there:
        left(tmp_path, Block("own", CELL, first, last))
    found = planned(tmp_path, repetitions)
    assert [(one.first, one.last) for one in found.missing] == missing
    assert [(one.first, one.last) for one in found.present] == there
    if there:
        with pytest.raises(UsageError, match="has results of 1 of these 1 cells: give --resume"):
            planned(tmp_path, repetitions, resume=False)


def test_a_repetition_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    for last in (2, 50):
        left(tmp_path, Block("own", CELL, 1, last))
    with pytest.raises(UsageError, match=r"0001-0050 has repetitions that \S+/0001-0002 has, too"):
        planned(tmp_path, 50)
    with pytest.raises(InputError, match="has repetition 1 of quiche-quiche-iack-9ms, as 0001-0002 beside"):
        series.rows(tmp_path, "own")


def test_rows_are_those_of_folders_that_are_complete(tmp_path: Path) -> None:
    left(tmp_path, Block("own", CELL, 1, 2))
    other = left(tmp_path, Block("own", CELL, 3, 4))
    other.rename(other.with_name(f"{other.name}.part"))
    assert [row["repetition"] for row in series.rows(tmp_path, "own")] == [1, 2]


def test_rows_of_several_experiments_are_those_that_there_are(tmp_path: Path) -> None:
    left(tmp_path, Block("own", CELL, 1, 2))
    found = series.rows_of(tmp_path, ("other", "own"))
    assert {name: len(rows) for name, rows in found.items()} == {"own": 2}
    with pytest.raises(InputError, match=r"has no trials of other, more: `firstflight testbed run other`"):
        series.rows_of(tmp_path, ("other", "more"))


@pytest.mark.parametrize(
    ("jobs", "processors", "seconds"),
    [(1, 8, 60), (2, 8, 40), (3, 8, 30), (4, 8, 30), (4, 2, 40), (2, 1, 60)],
)
def test_the_time_foretold_is_of_guests_side_by_side(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, jobs: int, processors: int, seconds: float
) -> None:
    """Of 10, 20 and 30 s, begun in this order; a stack that is unavailable takes none."""
    taken = {1: 10.0, 2: 20.0, 3: 30.0}
    monkeypatch.setattr(Block, "cpu_s", property(lambda block: taken[block.first]))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(processors)))
    blocks = [Block("own", CELL, number, number) for number in taken]
    found = series.Plan(tmp_path, (Block("own", NOT_HERE, 1, 1), *blocks), ())
    assert (found.cpu_s, found.wall_s(jobs)) == (60, seconds)


def test_a_dry_run_foretells_both_times(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    arguments = ["run", "iack-ttfb", "--cells", "quinn-quinn-", "--dry-run", "--out", str(tmp_path / "out")]
    command([*arguments, "--jobs", "2"], standalone_mode=False)
    said = capfd.readouterr().err
    assert "200 trials in 4 guests to do, about 22 s of CPU time, 11 s with --jobs 2; 0 blocks" in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("hashes", "failed", "alike"),
    [
        (("a", "a"), False, True),
        (("a", "b"), False, False),
        (("a", None), True, False),
        ((None, None), True, False),
    ],
)
def test_two_guests_that_fail_are_not_the_same(
    hashes: tuple[str | None, str | None], failed: bool, alike: bool
) -> None:
    found = same.Twice(Block("own", CELL, 1, 2), hashes, frozenset({"done"}))
    assert (found.failed, found.same) == (failed, alike)


@pytest.mark.parametrize(
    ("cell", "outcome", "again"),
    [
        (CELL, "guest_failed", True),
        # The stack was not here then.
        (CELL, "unavailable", True),
        (NOT_HERE, "unavailable", False),
        (CELL, "timeout", False),
        (CELL, "not_captured", False),
    ],
)
def test_what_may_go_better_is_done_again(tmp_path: Path, cell: Cell, outcome: str, again: bool) -> None:
    folder = left(tmp_path, Block("own", cell, 1, 50), outcome)
    found = planned(tmp_path, 60, cell)
    assert [one.first for one in found.missing] == ([1, 51] if again else [51])
    assert (len(found.again), len(found.present)) == ((1, 0) if again else (0, 1))
    with pytest.raises(UsageError, match="has results of 1 of these 1 cells: give --resume"):
        planned(tmp_path, 60, cell, resume=False)
    killed = folder.with_name("0051-0060.part")
    killed.mkdir()
    series.run(dataclasses.replace(found, missing=()), 1, lambda *_: None, captures=True)
    assert not killed.exists()
    assert folder.exists() is not again


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ({"certificate_delay_ms": 200}, {"certificate_delay_ms": 100}),
        ({}, {"drop_to_client": (2,)}),
        ({"queue_packets": 25}, {"queue_packets": 30}),
    ],
)
@pytest.mark.parametrize("cell", [CELL, NOT_HERE])
def test_trials_of_other_conditions_are_not_kept(
    tmp_path: Path, cell: Cell, was: dict[str, Any], now: dict[str, Any]
) -> None:
    """A cell's name has not all of its conditions; without a guest there is no seed that has."""
    before, after = cell.model_copy(update=was), cell.model_copy(update=now)
    assert before.name == after.name
    one = Block("own", before, 1, 2)
    more = {} if cell is CELL else {"seed": None}
    left(tmp_path, one, "done" if cell is CELL else "unavailable", **more)
    assert planned(tmp_path, 2, before).missing == ()
    with pytest.raises(UsageError, match="has trials of other conditions than the cell has now"):
        planned(tmp_path, 2, after)


def test_a_killed_comparison_leaves_nothing_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    place = tmp_path / "firstflight" / "testbed" / "twice"
    (place / "killed" / "1").mkdir(parents=True)
    (place / "killed" / "held").touch()
    with same._scratch() as first, same._scratch() as second:
        assert first != second
        assert {one.name for one in place.iterdir()} == {"lock", first.name, second.name}
        assert list(first.iterdir()) == [first / "held"]
    assert [one.name for one in place.iterdir()] == ["lock"]


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """All programs are built but the client kwik and the server quinn."""

    def find(name: str) -> Path:
        if name in ("firstflight-kwik-client", "firstflight-quinn-server"):
            raise UsageError("not there")
        return Path(name)

    monkeypatch.setattr("testbed.block.binaries.find", find)
    return monkeypatch


def test_what_is_not_built_ends_a_series_before_its_first_guest(
    tmp_path: Path, built: pytest.MonkeyPatch
) -> None:
    begun: list[Block] = []
    built.setattr(block, "run", lambda one, *_, **__: begun.append(one))
    cells = [CELL, CELL.model_copy(update={"client": "kwik"})]
    own = series.plan(tmp_path / "out", "own", cells, 1, resume=False)
    with pytest.raises(UsageError, match="kwik-client is not built: run `make testbed-setup`"):
        series.run(own, 1, lambda *_: None, captures=True)
    large = CELL.model_copy(update={"body_bytes": 1 << 30})
    built.setattr(guest, "SHARED_MEMORY", tmp_path)
    built.setattr(
        "testbed.guest.os.statvfs", lambda _: SimpleNamespace(f_flag=0, f_bavail=1 << 20, f_frsize=4096)
    )
    with pytest.raises(UsageError, match="a guest of 17404 MB does not fit into"):
        series.run(series.plan(tmp_path / "out", "own", [large], 1, resume=False), 1, print, captures=True)
    assert begun == []
    assert not (tmp_path / "out").exists()


def test_a_series_that_ends_early_has_its_record_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(own: series.Plan, _: int, say: Any, **__: bool) -> None:
        one = own.missing[0]
        left(own.out, one)
        say(one, series.rows(own.out, one.experiment), 1.0)
        raise UsageError("a fault")

    monkeypatch.setattr(series, "run", run)
    with pytest.raises(UsageError, match="a fault"):
        command(
            ["run", "iack-ttfb", "--out", str(tmp_path), "--cells", "quiche-quiche"], standalone_mode=False
        )
    assert record_file.path(tmp_path, "iack-ttfb").is_file()


@pytest.mark.usefixtures("built")
def test_what_is_missing_of_a_stack_is_listed(capfd: pytest.CaptureFixture[str]) -> None:
    command(["list"], standalone_mode=False)
    listed = dict(line.strip().split(": ", 1) for line in capfd.readouterr().out.splitlines() if ": " in line)
    version = stacks.find("quinn").version.text()
    lacks = "firstflight-quinn-server is not built: run `make testbed-setup`"
    assert listed["quinn"] == f"client and server, {version}; {lacks}"
    assert listed["s2n-quic"] == f"client and server, {stacks.find('s2n-quic').version.text()}"
    assert listed["picoquic"].startswith("unavailable: ")
