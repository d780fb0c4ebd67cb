"""Table 2: the better answer in each case, computed from trials, and the commands that show it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli.lab.testbed import command
from firstflight.errors import InputError, UsageError
from testbed.computed import amplification_limit, better_answer, better_answer_page
from testbed.computed.better_answer import BetterAnswerCase, Pair, PairCount
from testbed.trials import block, trial_row
from testbed.trials.captures import block_files, captured_packets
from tests.testbed.experiments import find
from tests.testbed.measures.test_gain import trial

LOSS = BetterAnswerCase(over=False, lost="server flight", longer=None)
QUIET = BetterAnswerCase(over=False, lost="nothing", longer=False)


@pytest.mark.parametrize(
    ("over", "lost", "longer", "published"),
    [
        (False, "server flight", None, "WFC"),
        (False, "second flight", None, "IACK"),
        (False, "nothing", False, "IACK"),
        (False, "nothing", True, "WFC"),
        (True, "server flight", None, "IACK"),
        (True, "second flight", None, "IACK"),
        (True, "nothing", False, "IACK"),
        (True, "nothing", True, "IACK"),
    ],
)
def test_the_published_table(
    over: bool, lost: better_answer.Lost, longer: bool | None, published: str
) -> None:
    assert BetterAnswerCase(over, lost, longer).published == published


@pytest.mark.parametrize(
    ("case", "gain_ms", "pto_gain_ms", "probes", "answer"),
    [
        (LOSS, 0.6, 0, None, "IACK"),
        (LOSS, -0.6, 99, None, "WFC"),
        (LOSS, 0.5, 99, None, "same"),
        (QUIET, 0.6, 0, 3, "IACK"),
        (QUIET, 0, 12, 1, "WFC"),
        (QUIET, 0, 12, 0, "IACK"),
        (QUIET, 0, 0.5, -1, "same"),
        (QUIET, 0, 12, None, None),
        (QUIET, 0, None, 0, None),
        (QUIET, None, 12, 0, None),
    ],
)
def test_the_earlier_first_byte_is_better_then_no_probe_then_the_shorter_timeout(
    case: BetterAnswerCase,
    gain_ms: float | None,
    pto_gain_ms: float | None,
    probes: float | None,
    answer: str | None,
) -> None:
    assert Pair(case, "quinn", "quic-go", 9, gain_ms, pto_gain_ms, probes).better == answer


def pair(
    gain_ms: float | None, rtt_ms: float = 9, server: str = "quic-go", case: BetterAnswerCase = LOSS
) -> Pair:
    return Pair(case, "quinn", server, rtt_ms, gain_ms, None, None)


@pytest.mark.parametrize(
    ("gains", "ours", "counts"),
    [
        ([-5, -7, 9], "WFC", (1, 2, 0)),
        ([-5, 7], "split", (1, 1, 0)),
        ([5, 7, 0], "IACK", (2, 0, 1)),
        ([0, 0, 1, None], "same", (1, 0, 2)),
    ],
)
def test_ours_is_what_more_than_half_of_the_pairs_have(
    gains: list[float | None], ours: str, counts: tuple[int, int, int]
) -> None:
    (found,) = better_answer.advices([pair(gain_ms) for gain_ms in gains])
    assert (found.ours, (found.iack, found.wfc, found.same)) == (ours, counts)
    known = sorted(gain_ms for gain_ms in gains if gain_ms is not None)
    assert (found.gain_low_ms, found.gain_high_ms, found.pairs) == (known[0], known[-1], len(known))
    assert better_answer.advices([pair(None)]) == []


def test_lines_are_in_the_tables_order() -> None:
    cases = [
        BetterAnswerCase(True, "nothing", True),
        QUIET,
        LOSS,
        BetterAnswerCase(False, "second flight", None),
    ]
    made = [pair(1, rtt_ms, server, case) for case in cases for rtt_ms in (300, 20) for server in ("b", "a")]
    found = better_answer.advices(made)
    assert [(advice.certificate, advice.lost) for advice in found[::4]] == [
        ("within", "server flight"),
        ("within", "second flight"),
        ("within", "nothing"),
        ("over", "nothing"),
    ]
    assert [(advice.server, advice.rtt_ms) for advice in found[:4]] == [
        ("a", 20),
        ("a", 300),
        ("b", 20),
        ("b", 300),
    ]


def rows(experiment: str, wfc_ms: float, iack_ms: float, **more: Any) -> list[dict[str, Any]]:
    conditions = {
        "experiment": experiment,
        "drop_second_flight": False,
        "drop_to_client": [],
        "certificate_delay_ms": 4.0,
        "capture_file": "here",
    }
    return [
        {**trial(answering, round(1000 * ms)), **conditions, **more}
        for answering, ms in (("wfc", wfc_ms), ("iack", iack_ms))
    ]


def test_a_pair_is_of_the_case_that_its_trials_have(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    packets = [hello(1200, 4)]

    def connections(*_: object) -> list[list[dict[str, Any]]]:
        return packets

    def summaries(_: Path, trials: list[dict[str, Any]]) -> list[dict[str, int]]:
        return [{"probes": 3 * (row["answering"] == "iack")} for row in trials]

    monkeypatch.setattr(captured_packets, "connections", connections)
    monkeypatch.setattr(captured_packets, "summaries_of", summaries)

    def found(trials: list[dict[str, Any]]) -> list[tuple[BetterAnswerCase, str | None]]:
        return [(pair.case, pair.better) for pair in better_answer.pairs(tmp_path, trials)]

    assert found(rows("a", 60, 240, drop_to_client=[2])) == [(LOSS, "WFC")]
    second = BetterAnswerCase(over=False, lost="second flight", longer=None)
    assert found(rows("a", 60, 48, drop_second_flight=True)) == [(second, "IACK")]
    over = BetterAnswerCase(over=True, lost="nothing", longer=False)
    assert found(rows("a", 60, 50)) == [(over, "IACK")]
    # Three RTTs of 9 ms.
    assert found(rows("a", 60, 60, certificate_delay_ms=27.0)) == [
        (BetterAnswerCase(over=True, lost="nothing", longer=True), "WFC")
    ]
    assert found(rows("a", 60, 50, certificate_delay_ms=26.9)) == [(over, "IACK")]
    # Without a delay the answers are equal. After a partial ACK, WFC is in effect an instant ACK.
    # A single answer forms no pair.
    assert found(rows("a", 60, 50, certificate_delay_ms=0.0)) == []
    assert found(rows("a", 60, 50, partial_ack_us=9000)) == []
    assert found(rows("a", 60, 50)[:1]) == found(rows("a", 60, 50, outcome="timeout")) == []
    # Other experiments are other pairs.
    assert len(found([*rows("a", 60, 240, drop_to_client=[2]), *rows("b", 60, 240, drop_to_client=[2])])) == 2
    packets.clear()
    assert found(rows("a", 60, 50)) == []


def hello(size: int, datagrams: int) -> list[dict[str, Any]]:
    """Return a one-datagram ClientHello, sent twice, and `datagrams` further datagrams from the server."""

    def packet(frame: int, from_client: bool, kind: str, frames: str, size: int) -> dict[str, Any]:
        return {
            "frame_number": frame,
            "from_client": from_client,
            "type": kind,
            "frames": frames,
            "datagram_size": size,
        }

    answers = [packet(4 + n, False, "handshake", f"crypto {1100 * n}+1100", 1200) for n in range(datagrams)]
    return [
        packet(1, True, "initial", "crypto 0+300; padding 800", size),
        packet(2, True, "initial", "crypto 0+300; padding 800", size),
        packet(3, False, "initial", "ack 0 delay 0", 60),
        packet(4, False, "initial", "crypto 0+90", 1200),
        *answers,
        packet(90, False, "handshake", "crypto 0+1100", 1200),
        packet(91, True, "handshake", "crypto 0+36", 1200),
        packet(92, False, "1rtt", "crypto 0+2000", 1200),
    ]


@pytest.mark.parametrize(
    ("size", "datagrams", "over"), [(1200, 3, False), (1200, 4, True), (1199, 3, True), (1600, 4, False)]
)
def test_the_limit_is_three_times_the_client_hello(size: int, datagrams: int, over: bool) -> None:
    """Neither repetitions nor bare ACKs count, and a datagram with two packets counts once."""
    assert amplification_limit.is_over(hello(size, datagrams)) is over


def test_without_a_flight_that_can_be_read_the_limit_is_not_known() -> None:
    assert amplification_limit.is_over(hello(1200, 3)[2:]) is None
    assert amplification_limit.is_over(hello(1200, 3)[:4]) is None


def advice(rtt_ms: float, ours: str, server: str = "quic-go") -> PairCount:
    counts = (int(ours == "IACK"), int(ours == "WFC"), int(ours == "same"))
    return PairCount("within", "server flight", "", server, rtt_ms, 1, *counts, -5, -5, -5, ours, "WFC")


@pytest.mark.parametrize(
    ("below", "above", "met"),
    [("WFC", "IACK", True), ("IACK", "IACK", False), ("WFC", "WFC", False), ("WFC", "split", False)],
)
def test_the_first_wfc_flips_between_100_and_300_ms(below: str, above: str, met: bool) -> None:
    lines = [advice(20, "WFC"), advice(100, below), advice(300, above)]
    text = better_answer_page.summary(lines).text(terminal=False)
    verdict = "met" if met else "not met"
    assert f"server quic-go: {verdict}: WFC is better at 100 ms, and IACK at 300 ms" in text
    assert "IACK at 300 ms" not in better_answer_page.summary(lines[:2]).text(terminal=False)
    # Without a flip, the check gives the reasons of both lines.
    (check,) = better_answer_page.summary(
        [advice(100, "IACK", "aioquic"), advice(300, "same", "aioquic")]
    ).checks[2:]
    assert not check.met and check.reason is not None
    assert "repairs the loss with IACK; the server's default PTO expires" in check.reason
    # quiche's default PTO is five times as long.
    other = [advice(100, below, "quiche"), advice(300, above, "quiche")]
    assert "IACK at 300 ms" not in better_answer_page.summary(other).text(terminal=False)


def test_each_line_has_a_verdict_and_a_panel_its_case() -> None:
    lines = [advice(20, "WFC"), advice(300, "IACK")]
    summary = better_answer_page.summary(lines, ["iack-map"])
    assert [check.met for check in summary.checks] == [True, False]
    assert summary.checks[0].reason is None
    assert "Figure 12" in (summary.checks[1].reason or "")
    assert "No trials of iack-map: `firstflight testbed run iack-map` makes some." in summary.notes
    (panel,) = better_answer_page.panels(lines)
    assert panel.title == "certificate within the limit, server flight lost"
    assert panel.series[0].points == ((20, -5), (300, -5))


def test_published_advice_can_be_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Pair(LOSS, "x", "quic-go", 20, -5, None, None)
    (shown,) = better_answer.advices([pair])
    assert shown.published == "WFC"
    monkeypatch.setenv("FIRSTFLIGHT_PUBLISHED", "hide")
    (hidden,) = better_answer.advices([pair])
    assert (hidden.published, hidden.ours) == (None, "WFC")
    for lines in ([shown], [hidden], [advice(100, "WFC"), advice(300, "IACK")]):
        summary = better_answer_page.summary(lines)
        assert summary.checks == [] and "publ" not in summary.text(terminal=False).partition("\n\n")[2]


def test_show_makes_it_of_the_trials_of_others(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def printed(*arguments: str) -> str:
        command([*arguments, "--out", str(tmp_path)], standalone_mode=False)
        return capfd.readouterr().out

    with pytest.raises(InputError, match=r"no trials of iack-loss-server, .*`firstflight testbed run "):
        printed("show", "iack-better")
    given = {"drop_to_client": [2], "server": "quic-go", "client_version": "1"}
    for row in rows("iack-loss-server", 60, 240, **given):
        name = f"{row['client']}-quic-go-{row['answering']}-9ms"
        (cell,) = (each_cell for each_cell in find("iack-loss-server").cells() if each_cell.name == name)
        row |= {"cell": name, "repetition": 1, "seed": block.TrialBlock("iack-loss-server", cell, 1, 1).seed}
        columns = trial_row.without_trial("iack-loss-server", cell, 1, "done", None)
        row = {column: row.get(column, value) for column, value in columns.items()}
        folder = tmp_path / "iack-loss-server" / row["cell"] / "0001-0001"
        folder.mkdir(parents=True)
        (folder / block_files.ROWS).write_text(json.dumps(row) + "\n")
    assert "server quic-go: met: WFC is better: WFC (0 IACK, 1 WFC, 0 the same)" in printed(
        "show", "iack-better"
    )
    assert "several versions" not in printed("show", "iack-better")
    file = folder / block_files.ROWS
    whole = file.read_text()
    row = json.loads(whole)
    file.write_text(json.dumps({**row, "client_version": "2"}) + "\n")
    several = f"The client {row['client']} has several versions in these trials: 1, 2.\n"
    assert printed("show", "iack-better").endswith(several)
    file.write_text(whole)
    (line,) = printed("show", "iack-better", "--format", "jsonl").splitlines()
    assert json.loads(line)["gain_median_ms"] == -180
    kept = json.loads(printed("show", "iack-better", "--format", "json"))
    assert kept["lines"] == [json.loads(line)] and kept["versions"]["client"] == {row["client"]: ["1"]}
    assert [command.rpartition(" --seeds ")[0] for command in kept["commands"][1:-1]] == [
        "firstflight testbed run iack-loss-server --jobs 2"
    ]
    assert printed("show", "iack-better", "--part", "trials").count("\n") == 2
    file.write_text(whole.replace(f'"seed": {row["seed"]}', '"seed": 1'))
    with pytest.raises(UsageError, match="other conditions"):
        printed("show", "iack-better")
    assert printed("show", "iack-better", "--part", "trials").count("\n") == 2
    for name in ("run", "list", "verify"):
        with pytest.raises(UsageError, match=r"iack-better has no (trials|cells)"):
            command([name, "iack-better"], standalone_mode=False)
