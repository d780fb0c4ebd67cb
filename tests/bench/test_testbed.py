"""Calculations and verdicts of `python -m bench testbed` and `real_time`, with invented costs and rows."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from bench import process
from bench.results import Values
from bench.testbeds import real_time
from bench.testbeds import testbed as bench
from bench.testbeds.testbed_cost import RepetitionCost, line, scaled, whole
from firstflight.errors import UsageError
from testbed.experiment.cell import Cell
from testbed.guest import guest, kernel
from testbed.trials.block import TrialBlock
from testbed.trials.captures import captured_packets
from testbed.trials.network import wire
from testbed.trials.trial_row import TrialRow
from tests.testbed.experiments import find


def test_a_larger_series_costs_what_the_line_fit_predicts() -> None:
    """A guest costs 2 s, a trial 0.1 s, and the command 1 s. Ten cells of 100 trials need twenty guests."""
    few = RepetitionCost(1 + 5 * (2 + 2 * 0.1), 5, 2, 2.5)
    many = RepetitionCost(1 + 5 * (2 + 20 * 0.1), 5, 20, 25.0)
    found = scaled(few, many, 1.0, cells=10, length=50)
    assert (found.guest_cpu_s, found.trial_cpu_s) == pytest.approx((2, 0.1))
    assert found.cpu_s == pytest.approx(20 * 2 + 1000 * 0.1)
    assert (found.waited_s, found.real_s) == pytest.approx((250, 250 + 1000 * 2.0))
    assert scaled(few, many, 1.0, cells=10, length=100).cpu_s == pytest.approx(10 * 2 + 1000 * 0.1)


@pytest.mark.parametrize(
    ("few", "many"),
    [
        (RepetitionCost(1, 5, 2, 1), RepetitionCost(1, 4, 20, 1)),
        (RepetitionCost(1, 5, 20, 1), RepetitionCost(1, 5, 20, 1)),
        (RepetitionCost(1, 5, 2, 1), RepetitionCost(1, 5, 60, 1)),
    ],
)
def test_a_straight_line_needs_two_sizes_of_one_guest(few: RepetitionCost, many: RepetitionCost) -> None:
    with pytest.raises(ValueError, match="the same cells with two numbers of repetitions"):
        scaled(few, many, 1.0, cells=10, length=50)


def test_a_complete_series_is_what_was_measured() -> None:
    found = whole(RepetitionCost(90, 10, 100, 200), 1.5)
    assert (found.cpu_s, found.waited_s, found.real_s) == (88.5, 200, 2200)
    assert str(found) == "88.5 CPU s; in real time clients wait 200 s, 2200 s with the pauses"


@pytest.mark.parametrize(("cost", "verdict"), [(11.9, "met"), (12.0, "missed")])
def test_a_goal_is_met_below_it(cost: float, verdict: str) -> None:
    assert line(cost, 12, "s") == f"{cost:.1f} CPU s (goal under 12: {verdict})"


def test_the_cells_are_those_of_figure_5() -> None:
    names = {cell.name for cell in find(bench.FIGURE).cells()}
    whole_figure = [name for client in bench.CLIENTS for name in bench.of_client(client)]
    assert len(whole_figure) == 80 and set(whole_figure) <= names
    assert set(bench.CELLS) <= set(whole_figure)
    for client in bench.CLIENTS:
        chosen = bench.sample(client)
        assert len(chosen) == 5 and set(chosen) <= set(bench.of_client(client))
    assert len(bench.available(whole_figure)) == 74
    assert bench.available(bench.of_client("go-x-net")) == [
        "go-x-net-aioquic-iack-9ms",
        "go-x-net-aioquic-wfc-9ms",
        "go-x-net-quic-go-iack-9ms",
        "go-x-net-quic-go-wfc-9ms",
    ]
    # Both ways of answering occur equally often.
    answers = Counter(name.split("-")[-2] for client in bench.CLIENTS for name in bench.sample(client))
    assert answers == {"iack": 20, "wfc": 20}


@pytest.mark.parametrize(("cell_s", "kept"), [(11.9, True), (12.1, False)])
def test_each_cell_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cell_s: float, kept: bool) -> None:
    costs = iter([5.0, 5.0, cell_s])
    monkeypatch.setattr(bench, "_run", lambda *_: RepetitionCost(next(costs), 1, 100, 20))
    assert bench._cells(tmp_path, Values()) is kept


@pytest.mark.parametrize(
    ("python_s", "other_s", "kept"), [(5000, 128, True), (0, 128.5, False)], ids=["python-apart", "missed"]
)
def test_the_python_client_is_no_part_of_the_goal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, python_s: float, other_s: float, kept: bool
) -> None:
    """Seven clients and 1 s for the start of the command: 897 and 900.5 CPU s, with a goal of 900."""

    def run(_out: Path, cells: list[str], repetitions: int, *, resume: bool = False) -> RepetitionCost:
        if repetitions == 1:
            return RepetitionCost(1 if resume else 3, 1, 1, 0.2)
        client_s = python_s if cells[0].startswith("aioquic-") else other_s
        return RepetitionCost(client_s + 1, len(cells), repetitions, 1)

    monkeypatch.setattr(bench, "_run", run)
    assert bench._figure(tmp_path, Values(), all_of_it=True) is kept


def test_trials_that_were_not_all_done_are_no_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "run", lambda *_, **__: process.Used(1, 1, 1, 1, 1))
    with pytest.raises(SystemExit, match="0 trials of 1 cells were done, not 3 each"):
        bench._run(tmp_path, [bench.CELLS[0]], 3)
    with pytest.raises(SystemExit, match="iack-ttfb has other cells than quiche-quiche"):
        bench._run(tmp_path, ["quiche-quiche"], 3)


def rows(*given: int | str) -> list[TrialRow]:
    """Return rows of trials with these times to first byte in us, or with another outcome than `done`."""
    return [
        {
            "repetition": number,
            "outcome": value if isinstance(value, str) else "done",
            "detail": "why",
            "first_stream_us": None if isinstance(value, str) else value,
            "drop_to_server": [4, 5],
        }
        for number, value in enumerate(given, start=1)
    ]


def test_a_cell_s_times_name_what_does_not_count(capsys: pytest.CaptureFixture[str]) -> None:
    found = real_time.times(rows(20_000, "timeout", 30_000, real_time.OTHER_LOSS, 21_000))
    assert str(found) == "21.00 (20.00 to 30.00, without 2 of 5)"
    assert (found.median_ms, found.failed) == (21.0, 1)
    assert "repetition 2: timeout: why" in capsys.readouterr().out
    assert str(real_time.times(rows("timeout"))) == "none of 1 trials counts"


@pytest.mark.parametrize(
    ("more", "outcome"),
    [
        ({"drop_second_flight": True}, real_time.OTHER_LOSS),
        ({"drop_second_flight": True, "drop_to_server": (5,)}, "done"),
        ({}, "done"),
    ],
)
def test_a_trial_with_another_loss_is_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, object], outcome: str
) -> None:
    """Only the fourth datagram is the second flight, but datagrams 4 and 5 were lost."""
    packets = [
        {
            "from_client": True,
            "frame_number": number,
            "type": kind,
            "frames": "stream 0" if kind == "handshake" else "",
        }
        for number, kind in enumerate(("initial", "initial", "initial", "handshake", "1rtt"))
    ]
    monkeypatch.setattr(captured_packets, "connections", lambda *_: [packets])
    cell = Cell.model_validate({"client": "quiche", "server": "quiche", "answering": "wfc", **more})
    (row,) = rows(20_000)
    found = real_time.as_lost(cell, tmp_path, row)
    assert found["outcome"] == outcome
    if outcome != "done":
        assert found["detail"] == (
            "the client's datagrams 4, 5 were dropped, where its second flight was to make them 4"
        )
    (lost,) = rows("timeout")
    assert real_time.as_lost(cell, tmp_path, lost) == lost


def test_a_comparison_is_real_minus_simulated() -> None:
    simulated, found = real_time.times(rows(20_000, 20_010, 20_020)), real_time.times(rows(22_000, 23_000))
    assert str(real_time.ComparedCell("cell", simulated, found, 20.0, 70.4)) == (
        "cell: simulated 20.01 (20.00 to 20.02); real 22.50 (22.00 to 23.00); real minus simulated +2.49; "
        "link late 20, at most 70 us"
    )
    assert real_time.ComparedCell("cell", simulated, real_time.times([]), None, None).more_ms is None


def test_the_sample_has_cells_that_can_be_compared() -> None:
    chosen = list(real_time._chosen(None, "", 10))
    assert len(chosen) == 9
    assert all(wire.why_not(block.cell) is None for block in chosen)


@pytest.mark.parametrize(("lost", "status"), [(False, 0), (True, 1)])
def test_only_trials_that_were_not_done_fail_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], lost: bool, status: int
) -> None:
    def compared(block: TrialBlock) -> real_time.ComparedCell:
        last = "timeout" if lost and block.experiment == "iack-loss-client" else real_time.OTHER_LOSS
        return real_time.ComparedCell(
            block.cell.name, real_time.times(rows(1000)), real_time.times(rows(last)), 1, 1
        )

    def nothing(_: TrialBlock) -> None:
        pass

    monkeypatch.setattr(real_time, "compared", compared)
    monkeypatch.setattr("testbed.trials.real_time.check", nothing)
    monkeypatch.setattr(TrialBlock, "check", nothing)
    monkeypatch.setattr(guest, "check_shared_memory", nothing)
    monkeypatch.setattr(kernel, "find", lambda: Path("a-kernel/linux"))
    assert real_time.main([]) == status
    assert capsys.readouterr().out.count("real minus simulated") == 9


def test_missing_prerequisites_are_one_sentence_before_the_first_cell(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def nothing(_: TrialBlock) -> None:
        pass

    def missing() -> Path:
        raise UsageError("there is no kernel")

    monkeypatch.setattr("testbed.trials.real_time.check", nothing)
    monkeypatch.setattr(TrialBlock, "check", nothing)
    monkeypatch.setattr(kernel, "find", missing)
    assert real_time.main([]) == 2
    assert capsys.readouterr() == ("", "bench: there is no kernel\n")
    with pytest.raises(SystemExit, match="2"):
        real_time.main(["--cells", "quiche"])


def test_cells_without_real_time_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cell = Cell(client="quiche", server="quiche", answering="iack", qdisc="fq")
    monkeypatch.setattr(real_time, "_chosen", lambda *_: [TrialBlock("x", cell, 1, 1)])
    monkeypatch.setattr(kernel, "find", lambda: Path("a-kernel/linux"))
    assert real_time.main([]) == 0
    assert "x/quiche-quiche-iack-9ms-at-fq: not compared: with the qdisc fq" in capsys.readouterr().out
