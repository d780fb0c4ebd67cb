"""The work that a series plans, and the existing results that it keeps."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cli.lab.testbed import command
from firstflight.errors import InputError, UsageError
from testbed import stacks
from testbed.experiment.cell import Cell
from testbed.guest import guest, kernel
from testbed.trials import block, compare_runs, estimate, record_file, series, trial_row
from testbed.trials.block import TrialBlock
from testbed.trials.captures import block_files

CELL = Cell(client="quiche", server="quiche", answering="iack")
NOT_HERE = Cell(client="mvfst", server="quiche", answering="iack")
find_kernel = kernel.find


def left(out: Path, done: TrialBlock, outcome: str = "done", **more: Any) -> Path:
    """Leave a block's folder, as a run does, and return it."""
    folder = out / done.experiment / done.name
    folder.mkdir(parents=True)
    row = trial_row.without_trial(done.experiment, done.cell, 0, outcome, None) | {"seed": done.seed} | more
    numbers = range(done.first, done.last + 1)
    lines = [json.dumps({**row, "repetition": number}) + "\n" for number in numbers]
    (folder / block_files.ROWS).write_text("".join(lines), encoding="utf-8")
    return folder


def changed(**more: Any) -> Cell:
    return CELL.model_copy(update=more)


def planned(out: Path, repetitions: int, cell: Cell = CELL, *, resume: bool = True) -> series.SeriesPlan:
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
        left(tmp_path, TrialBlock("own", CELL, first, last))
    found = planned(tmp_path, repetitions)
    assert [(each_block.first, each_block.last) for each_block in found.missing] == missing
    assert [(each_block.first, each_block.last) for each_block in found.present] == there
    if there:
        with pytest.raises(UsageError, match="has results of 1 of these 1 cells: give --resume"):
            planned(tmp_path, repetitions, resume=False)


def test_a_duplicate_repetition_is_refused(tmp_path: Path) -> None:
    for last in (2, 50):
        left(tmp_path, TrialBlock("own", CELL, 1, last))
    with pytest.raises(UsageError, match=r"0001-0050 has repetitions that \S+/0001-0002 also has"):
        planned(tmp_path, 50)
    with pytest.raises(InputError, match="has repetition 1 of quiche-quiche-iack-9ms, as 0001-0002 beside"):
        series.rows(tmp_path, "own")


def test_rows_are_those_of_folders_that_are_complete(tmp_path: Path) -> None:
    left(tmp_path, TrialBlock("own", CELL, 1, 2))
    other = left(tmp_path, TrialBlock("own", CELL, 3, 4))
    other.rename(other.with_name(f"{other.name}.part"))
    assert [row["repetition"] for row in series.rows(tmp_path, "own")] == [1, 2]


def test_rows_of_several_experiments_are_the_existing_ones(tmp_path: Path) -> None:
    left(tmp_path, TrialBlock("own", CELL, 1, 2))
    found = series.rows_of(tmp_path, ("other", "own"))
    assert {name: len(rows) for name, rows in found.items()} == {"own": 2}
    with pytest.raises(InputError, match=r"has no trials of other, more: `firstflight testbed run other`"):
        series.rows_of(tmp_path, ("other", "more"))


@pytest.mark.parametrize(
    ("jobs", "processors", "seconds"),
    [(1, 8, 60), (2, 8, 40), (3, 8, 30), (4, 8, 30), (4, 2, 40), (2, 1, 60)],
)
def test_the_estimated_time_is_of_parallel_guests(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, jobs: int, processors: int, seconds: float
) -> None:
    """Three guests of 10, 20 and 30 s start in this order; an unavailable stack needs no time."""
    taken = {1: 10.0, 2: 20.0, 3: 30.0}
    monkeypatch.setattr(TrialBlock, "cpu_s", property(lambda block: taken[block.first]))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(processors)))
    blocks = [TrialBlock("own", CELL, number, number) for number in taken]
    found = series.SeriesPlan(tmp_path, (TrialBlock("own", NOT_HERE, 1, 1), *blocks), ())
    assert (found.cpu_s, found.wall_s(jobs)) == (60, seconds)


def test_a_dry_run_estimates_both_times(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    arguments = ["run", "iack-ttfb", "--cells", "quinn-quinn-", "--dry-run", "--out", str(tmp_path / "out")]
    command([*arguments, "--jobs", "2"], standalone_mode=False)
    printed = capfd.readouterr().err
    assert "200 trials in 4 guests to do, about 22 s of CPU time, 11 s with --jobs 2; 0 blocks" in printed
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
    found = compare_runs.Twice(TrialBlock("own", CELL, 1, 2), hashes, frozenset({"done"}))
    assert (found.failed, found.same) == (failed, alike)


@pytest.mark.parametrize(
    ("outcomes", "behind"),
    [({"done"}, ""), ({"done", "timeout", "failed"}, " (not done: failed, timeout)")],
)
def test_a_comparison_names_what_was_not_done(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], outcomes: set[str], behind: str
) -> None:
    """Two runs with equal outcomes are the same, even if their trials were not done."""
    found = compare_runs.Twice(TrialBlock("own", CELL, 1, 2), ("hash", "hash"), frozenset(outcomes))
    monkeypatch.setattr(compare_runs, "run_twice", lambda *_: [found])
    command(["verify", "iack-ttfb"], standalone_mode=False)
    assert capfd.readouterr().out == f"iack-ttfb/quiche-quiche-iack-9ms/0001-0002 hash{behind}\n"


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
def test_trials_that_may_succeed_are_repeated(tmp_path: Path, cell: Cell, outcome: str, again: bool) -> None:
    folder = left(tmp_path, TrialBlock("own", cell, 1, 50), outcome)
    found = planned(tmp_path, 60, cell)
    assert [each_block.first for each_block in found.missing] == ([1, 51] if again else [51])
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
    """A cell's name omits some conditions. The seed has them, but trials without a guest have no seed."""
    before, after = cell.model_copy(update=was), cell.model_copy(update=now)
    assert before.name == after.name
    earlier = TrialBlock("own", before, 1, 2)
    more = {} if cell is CELL else {"seed": None}
    left(tmp_path, earlier, "done" if cell is CELL else "unavailable", **more)
    assert planned(tmp_path, 2, before).missing == ()
    show(tmp_path, before)
    for refused in (lambda: planned(tmp_path, 2, after), lambda: show(tmp_path, after)):
        with pytest.raises(UsageError, match="has trials of other conditions than the cell has now"):
            refused()
    # Each row has its conditions, so rows may be shown.
    show(tmp_path, after, "--part", "trials", "--format", "jsonl")


@pytest.mark.parametrize("there", [CELL, changed(rtt_ms=20.0)])
def test_trials_of_another_version_are_refused_before_a_guest_starts(tmp_path: Path, there: Cell) -> None:
    """This holds for any cell of the experiment. Older rows lack the columns of conditions added later."""
    file = left(tmp_path, TrialBlock("own", there, 1, 2)) / block_files.ROWS
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert planned(tmp_path, 4, there).present
    older = [{name: row[name] for name in row if name != "delay_to_server_ms"} for row in rows]
    for changed_rows in (older, [{**row, "later_column": 1} for row in rows]):
        file.write_text("".join(json.dumps(row) + "\n" for row in changed_rows))
        refused = f"own has trials of another version of firstflight (cell {there.name}): remove them, or"
        for resume in (True, False):
            with pytest.raises(InputError, match=re.escape(refused)):
                planned(tmp_path, 4, resume=resume)
        with pytest.raises(InputError, match=re.escape(refused)):
            show(tmp_path, there)
        # The rows are shown with their own columns.
        show(tmp_path, there, "--part", "trials", "--format", "jsonl")


def show(out: Path, cell: Cell, *arguments: str) -> None:
    """Show the trials of a user's own experiment with one cell."""
    file = out / "own.toml"
    given = cell.model_dump(exclude_defaults=True).items()
    lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in given)
    file.write_text(f'title = "own"\n[[cell]]\n{lines}', encoding="utf-8")
    command(["show", "--scenario", str(file), "--out", str(out), *arguments], standalone_mode=False)


def test_versions_of_kept_trials_are_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """`run` names versions that differ from the installed ones, `show` several versions of a stack."""
    known_version = stacks.find("quiche").version.known()
    left(tmp_path, TrialBlock("own", CELL, 1, 2), client_version=known_version)
    assert planned(tmp_path, 4).older == ()
    show(tmp_path, CELL)
    assert "several versions" not in capfd.readouterr().out
    left(tmp_path, TrialBlock("own", CELL, 3, 4), client_version="0.1", server_version="0.2")
    left(tmp_path, TrialBlock("own", CELL, 5, 6), "guest_failed", server_version="0.3")
    older = planned(tmp_path, 6).older
    assert [sentence.partition(" in the kept trials")[0] for sentence in older] == [
        "the client quiche is 0.1",
        "the server quiche is 0.2",
    ]
    assert f"in the kept trials, and {known_version} here: use another folder (--out)" in older[0]
    show(tmp_path, CELL)
    several = f"The client quiche has several versions in these trials: 0.1, {known_version}."
    assert several in capfd.readouterr().out
    options = ["--scenario", str(tmp_path / "own.toml"), "--out", str(tmp_path)]
    command(["run", *options, "--dry-run"], standalone_mode=False)
    assert older[1] in capfd.readouterr().err


def test_folders_of_a_killed_comparison_are_removed_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    place = tmp_path / "firstflight" / "testbed" / "twice"
    (place / "killed" / "1").mkdir(parents=True)
    (place / "killed" / "held").touch()
    with compare_runs._scratch() as first, compare_runs._scratch() as second:
        assert first != second
        assert {path.name for path in place.iterdir()} == {"lock", first.name, second.name}
        assert list(first.iterdir()) == [first / "held"]
    assert [path.name for path in place.iterdir()] == ["lock"]


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """All is built but the client kwik and the server quinn, and guests may take 4 GB together."""

    def find(name: str) -> Path:
        if name in ("firstflight-kwik-client", "firstflight-quinn-server"):
            raise UsageError("not there")
        return Path(name)

    monkeypatch.setattr("testbed.trials.block.binaries.find", find)
    monkeypatch.setattr(kernel, "find", lambda: Path("linux"))
    monkeypatch.setattr(guest, "SHARED_MEMORY", tmp_path)
    free = SimpleNamespace(f_flag=0, f_bavail=1 << 20, f_frsize=4096)
    monkeypatch.setattr("testbed.guest.guest.os.statvfs", lambda _: free)
    return monkeypatch


def test_a_missing_build_ends_a_series_before_its_first_guest(
    tmp_path: Path, built: pytest.MonkeyPatch
) -> None:
    started: list[TrialBlock] = []
    built.setattr(block, "run", lambda started_block, *_, **__: started.append(started_block))

    def refused(why: str, *cells: Cell, jobs: int = 1, repetitions: int = 1) -> None:
        plan = series.plan(tmp_path / "out", "own", cells, repetitions, resume=False)
        with pytest.raises(UsageError, match=why):
            series.run(plan, jobs, lambda *_: None, captures=True)

    refused("kwik-client is not built: run `make testbed-setup`", CELL, changed(client="kwik"))
    refused("a guest of 17404 MB does not fit into", changed(body_bytes=1 << 30))
    # Five of the least memory take more than 4 GB; so do one of these and two larger ones.
    five = r"5 guests at a time, which take up to 5120 MB, do not fit into .* give fewer --jobs"
    refused(five, CELL, jobs=8, repetitions=250)
    larger = [CELL, changed(body_bytes=100 << 20)]
    refused("3 guests at a time, which take up to 4828 MB", *larger, jobs=9, repetitions=2)
    built.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    built.setattr(kernel, "find", find_kernel)
    refused("there is no kernel of this configuration in", CELL)
    with pytest.raises(UsageError, match="there is no kernel"):
        next(compare_runs.run_twice("own", [CELL], 1, 1))
    assert started == []
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("built")
@pytest.mark.parametrize(("jobs", "blocks"), [(4, 9), (9, 4)])
def test_guests_start_while_they_fit_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int, blocks: int
) -> None:
    """Four guests of 1 GB use all memory; unavailable cells use no memory."""
    started: list[TrialBlock] = []
    monkeypatch.setattr(block, "run", lambda started_block, *_, **__: started.append(started_block))
    cells = (CELL, NOT_HERE)
    plan = series.plan(tmp_path / "out", "own", cells, estimate.LENGTH * blocks, resume=False)
    series.run(plan, jobs, lambda *_: None, captures=True)
    assert len(started) == 2 * blocks


@pytest.mark.usefixtures("built")
def test_both_runs_of_a_cell_may_be_guests_at_a_time() -> None:
    for jobs, why in ((1, "a guest of 17404 MB"), (8, "2 guests at a time, which take up to 34808 MB")):
        with pytest.raises(UsageError, match=why):
            next(compare_runs.run_twice("own", [changed(body_bytes=1 << 30)], 1, jobs))


def test_a_series_that_ends_early_has_its_record_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(plan: series.SeriesPlan, _: int, say: Any, **__: bool) -> None:
        missing_block = plan.missing[0]
        left(plan.out, missing_block)
        say(missing_block, series.rows(plan.out, missing_block.experiment), 1.0)
        raise UsageError("a fault")

    monkeypatch.setattr(series, "run", run)
    with pytest.raises(UsageError, match="a fault"):
        command(
            ["run", "iack-ttfb", "--out", str(tmp_path), "--cells", "quiche-quiche"], standalone_mode=False
        )
    assert record_file.path(tmp_path, "iack-ttfb").is_file()


@pytest.mark.usefixtures("built")
def test_missing_parts_of_a_stack_are_listed(capfd: pytest.CaptureFixture[str]) -> None:
    command(["list"], standalone_mode=False)
    listed = dict(line.strip().split(": ", 1) for line in capfd.readouterr().out.splitlines() if ": " in line)
    version = stacks.find("quinn").version.text()
    lacks = "firstflight-quinn-server is not built: run `make testbed-setup`"
    assert listed["quinn"] == f"client and server, {version}; {lacks}"
    assert listed["s2n-quic"] == f"client and server, {stacks.find('s2n-quic').version.text()}"
    assert listed["mvfst"].startswith("unavailable: ")
