"""Acknowledgements: model, medians of cells, expectations and text, from hand-made rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from firstflight.errors import InputError
from testbed import measures
from testbed.experiment.cell import Cell
from testbed.measures import ack_asymmetry, ack_survey
from testbed.measures.acknowledgements import cells, checks, model, paired
from testbed.measures.acknowledgements.cells import Acks
from testbed.summary import Check
from testbed.trials import trial_row
from tests.testbed.experiments import find
from tests.testbed.experiments import text as text_of


def named(name: str, **values: object) -> Cell:
    """Return the one cell of an experiment that has all of `where`."""
    found: Cell
    (found,) = (
        cell
        for cell in find(name).cells()
        if all(getattr(cell, field) == value for field, value in values.items())
    )
    return found


def checked(experiment: Acks, rows: list[dict[str, Any]]) -> list[Check]:
    return checks.checks(experiment, cells.cells(experiment, rows), rows)


def trial(cell: Cell, repetition: int = 1, **more: object) -> dict[str, Any]:
    """Return the row for a completed trial with 855 packets and one ACK for every `ack_ratio` packets."""
    ratio = cell.ack_ratio or 2
    made = {
        **trial_row.without_trial("x", cell, repetition, "done", None),
        "client_version": "1.2",
        "transfer_us": 1_000_000,
        "peer_eliciting": 855,
        "ack_packets": 855 // ratio,
        "ack_only_packets": 855 // ratio,
        "bundled_packets": 0,
        "ack_only_ip_bytes_p50": 65,
        "eliciting_per_ack": float(ratio),
        "eliciting_per_ack_after100": float(ratio),
        "acks_by_count": 855 // ratio,
        "acks_by_timer": 0,
        "acks_by_reordering": 0,
        "ip_bytes_client": 65 * 855 // ratio,
        "ip_bytes_server": 1_050_000,
    }
    return {**made, **more}


def test_the_model_is_the_paper_s() -> None:
    """By hand: an ACK for every ten of 800 packets; the timer sent 20 of the ACKs, for five packets each."""
    assert model.acks(800, 10, 20) == 90
    # The first hundred packets have an ACK for every two.
    assert model.acks(800, 2, 20, (100, 10)) == 130
    assert model.acks(80, 2, 0, (100, 10)) == 40
    # 2 x 1280 / 67 times the rate of the way back: the paper's 38:1.
    assert model.forward_limit_mbit(1, 2, 1280, 67) == pytest.approx(38.2, abs=0.05)
    assert model.forward_limit_mbit(1, 10, 1280, 67) == pytest.approx(191, abs=0.1)


def test_a_cell_has_medians_and_what_was_published() -> None:
    experiment = find("ack-ratio")
    cell = named("ack-ratio", rtt_ms=638, ack_ratio=10)
    rows = [
        trial(cell, 1, acks_by_count=60, acks_by_timer=40, transfer_us=5_000_000),
        trial(cell, 2, acks_by_count=70, acks_by_timer=30, transfer_us=6_000_000),
        trial(cell, 3, acks_by_count=80, acks_by_timer=20, transfer_us=9_000_000),
        trial_row.without_trial("x", cell, 4, "timeout", None),
    ]
    (found,) = cells.cells(experiment, rows)
    assert (found.done, found.trials, found.outcomes) == (3, 4, "done 3, timeout 1")
    assert (found.transfer_ms, found.timer_percent, found.reordering_percent) == (6000, 30, 0)
    assert found.model_acks == 85.5 + 15
    assert (found.published_transfer_ms, found.published_timer_percent) == (5640, 32)
    assert found.client_percent == pytest.approx(100 * 65 * 85 / 1_050_000, abs=0.01)
    assert found.bundled_percent == 0
    late = named("ack-ratio", rtt_ms=638, ack_ratio=100, ack_delay_ms=125)
    (other,) = cells.cells(experiment, [trial(late)])
    assert (other.published_client_percent, other.published_transfer_ms) == (0.25, None)


def test_unacknowledged_datagrams_have_no_share() -> None:
    cell = named("ack-ratio", rtt_ms=95, ack_ratio=2)
    nothing = {**trial(cell), **dict.fromkeys(trial_row.ACK_MEASURES)}
    (found,) = cells.cells(find("ack-ratio"), [nothing])
    assert (found.acks, found.model_acks, found.timer_percent, found.bundled_percent) == (None,) * 4
    with pytest.raises(InputError, match="has no cell elsewhere any more"):
        cells.cells(find("ack-ratio"), [{**trial(cell), "cell": "elsewhere"}])


def lossless(**times_us: int) -> list[dict[str, Any]]:
    """Return a trial of each ratio at 30 ms; `times_us`: ar2, ar10."""
    return [
        trial(named("ack-ratio", rtt_ms=30, ack_ratio=int(name[2:])), transfer_us=time, acks_by_timer=timer)
        for (name, time), timer in zip(times_us.items(), (1, 4), strict=True)
    ]


def met(found: list[Check], about: str) -> list[bool]:
    return [check.met for check in found if about in check.about]


def test_expectations_without_loss() -> None:
    experiment = find("ack-ratio")
    found = checked(experiment, lossless(ar2=440_000, ar10=450_000))
    # The model twice, fewer ACKs, no later, less than 1 %, and a larger share by the timer.
    assert [check.met for check in found] == [True] * 6
    assert met(found, "RTT 30 ms, ratio 10") == [True, True]
    late = checked(experiment, lossless(ar2=440_000, ar10=480_000))
    assert [check.found for check in late if not check.met] == ["+40.0 ms"]
    # Half of the ACKs that the model predicts.
    rows = [{**row, "ack_packets": row["ack_packets"] // 2} for row in lossless(ar2=1, ar10=1)]
    assert [check.met for check in checked(experiment, rows)][:3] == [False, False, True]


def test_cells_are_compared_with_those_of_the_same_delay() -> None:
    """Each ratio is compared with the next larger one."""
    wanted = [(2, 25), (10, 25), (20, 25), (100, 25), (100, 125)]
    rows = [
        trial(named("ack-ratio", rtt_ms=638, ack_ratio=ratio, ack_delay_ms=late), acks_by_timer=1 + number)
        for number, (ratio, late) in enumerate(wanted)
    ]
    found = checked(find("ack-ratio"), rows)
    assert [check.about for check in found if "takes as long" in check.expected] == [
        f"RTT 638 ms, ratio {ratio}" for ratio in (10, 20, 100)
    ]
    assert [check.about for check in found if "larger share" in check.expected] == [
        f"RTT 638 ms, ratio {pair}" for pair in ("10 after 2", "20 after 10", "100 after 20")
    ]


def acks_of(*further: dict[str, Any]) -> Acks:
    """Return a user's own experiment: ratios 2 and 10 under each of the `further` conditions."""
    conditions = {
        "client": "quinn",
        "server": "quinn",
        "answering": "wfc",
        "rtt_ms": 30,
        "body_bytes": 1_000_000,
    }
    given = [{"ack_ratio": ratio, **more} for more in further for ratio in (2, 10)]
    return Acks.model_validate({"title": "own", "measure": "acks", "held": conditions, "cell": given})


NAMED = {"named": ("drop_to_client", "drop_to_server", "reorder_to_client", "reorder_to_server")}
LATE = {"reorder_ms": 5, **NAMED}
UNCLEAN: list[tuple[dict[str, Any], str]] = [
    ({"netem_loss_to_client_percent": 1}, "1netem-down"),
    ({"netem_loss_to_server_percent": 0.5}, "0.5netem-up"),
    ({"reorder_percent": 1, **LATE}, "1reordered-5ms-behind"),
    ({"reorder_to_client": (9,), **LATE}, "5ms-behind-down-9-reordered"),
    ({"reorder_to_server": (9,), **LATE}, "5ms-behind-up-9-reordered"),
    ({"drop_to_client": (9, 12), **NAMED}, "down-9-12-lost"),
    ({"drop_to_server": (9,), **NAMED}, "up-9-lost"),
]


@pytest.mark.parametrize(("further", "words"), UNCLEAN)
def test_cells_with_loss_or_delay_are_not_without_loss(further: dict[str, Any], words: str) -> None:
    """Such a cell has no expectation that holds only without loss, and no comparison with a clean cell."""
    experiment = acks_of({}, further)
    rows = [trial(cell, acks_by_timer=cell.ack_ratio) for cell in experiment.cells()]
    found = cells.cells(experiment, rows)
    assert [(line.more, line.clean) for line in found] == [("", True)] * 2 + [(words, False)] * 2
    assert [check.about for check in checked(experiment, rows)] == [
        found[0].cell,
        found[1].cell,
        "RTT 30 ms",
        "RTT 30 ms, ratio 10",
        found[1].cell,
        "RTT 30 ms, ratio 10 after 2",
        f"RTT 30 ms, {words}, ratio 10 after 2",
    ]
    text = text_of(experiment, rows)
    assert f" {words} " in text


def test_an_unequal_delay_is_no_loss_and_its_cells_are_compared_with_each_other() -> None:
    experiment = acks_of({}, {"delay_to_server_ms": 3}, {"client": "quic-go"})
    rows = [trial(cell) for cell in experiment.cells()]
    assert all(line.clean for line in cells.cells(experiment, rows))
    found = [check.about for check in checked(experiment, rows) if "fewer ACKs" in check.expected]
    assert found == ["RTT 30 ms", "RTT 30 ms, 3ms-up", "RTT 30 ms"]


def test_the_second_flight_is_lost_too() -> None:
    experiment = acks_of({"drop_second_flight": True})
    assert [line.clean for line in cells.cells(experiment, [trial(cell) for cell in experiment.cells()])] == [
        False
    ] * 2


def test_a_published_value_is_not_of_paths_that_the_paper_does_not_have() -> None:
    cell = named("ack-ratio", rtt_ms=638, ack_ratio=10)
    other = cell.model_copy(update={"netem_loss_to_client_percent": 1.0})
    theirs = find("ack-ratio").transfer
    assert [
        any(cells._is_of(published, path_cell) for published in theirs) for path_cell in (cell, other)
    ] == [
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("differences", "expected"),
    [
        ([], 1),
        ([0, 0], 1),
        ([1], 1),
        # 2 x 1/32, and with one of the other sign 2 x (1 + 6) / 64.
        ([1] * 5, 2 / 32),
        ([1] * 5 + [-1, 0], 2 * 7 / 64),
        ([-2] * 10, 2 / 1024),
        ([1, -1], 1),
    ],
)
def test_the_sign_test_by_hand(differences: list[int], expected: float) -> None:
    assert paired.sign_test(differences) == pytest.approx(expected)


def test_pairs_are_repetitions_that_both_have() -> None:
    cell = named("ack-loss", loss_percent=1, rtt_ms=30, ack_ratio=2, ack_reordering="at_once")
    first = [trial(cell, number, transfer_us=1_000_000) for number in range(1, 9)]
    second = [trial(cell, number, transfer_us=1_100_000) for number in range(3, 11)]
    second[-1] = {**second[-1], "outcome": "timeout", "transfer_us": None}
    found = paired.compare(first, second)
    assert found is not None
    assert (found.pairs, found.median_ms, found.p, found.direction) == (6, 100, 2 / 64, 1)
    assert paired.compare(first, []) is None


@pytest.mark.parametrize(("short", "long", "consistent"), [(50_000, 9_000, True), (50_000, -9_000, False)])
def test_with_loss_no_choice_is_faster_on_every_path(short: int, long: int, consistent: bool) -> None:
    """Ratio 10 is later on one path and, or not, on the other: only the former is an order."""
    rows = []
    for rtt_ms, more in ((30, short), (638, long)):
        for ratio in (2, 10):
            for loss in (1, 5):
                cell = named(
                    "ack-loss", loss_percent=loss, rtt_ms=rtt_ms, ack_ratio=ratio, ack_reordering="at_once"
                )
                # With 5 %, no ratio is faster on any path.
                later_us = (ratio == 10) * more * (loss == 1)
                rows += [trial(cell, number, transfer_us=1_000_000 + later_us) for number in range(1, 11)]
    found = {check.about: check for check in checked(find("ack-loss"), rows)}
    about = "reordering at_once: ratio 10 against ratio 2"
    assert found[f"{about}, loss 5 %"].met
    order = found[f"{about}, loss 1 %"]
    assert order.met is not consistent
    assert "RTT 30 ms +50 ms (p 0.002, 10 pairs)" in order.found


def test_orders_with_loss_are_of_cells_that_are_alike() -> None:
    """With netem's loss, ratio 10 is slower on both paths; without, on neither."""
    lossy = {"loss_percent": 1.0, "ack_reordering": "at_once"}
    experiment = acks_of(
        *({**lossy, "rtt_ms": rtt, **netem} for rtt in (30, 90) for netem in ({}, UNCLEAN[0][0]))
    )
    rows = [
        trial(cell, number, transfer_us=1_000_000 + cell.ack_ratio * bool(cell.netem_loss_to_client_percent))
        for cell in experiment.cells()
        for number in range(1, 11)
        if cell.ack_ratio
    ]
    about = "reordering at_once: ratio 10 against ratio 2, loss 1 %"
    found = {check.about: check.met for check in checked(experiment, rows) if about in check.about}
    assert found == {about: True, f"{about}, 1netem-down": False}


def datagram(ms: float, size: int, *, from_client: bool) -> dict[str, Any]:
    return {
        "frame_number": round(ms * 1000) * 2 + from_client,
        "time_ns": round(ms * 1e6),
        "datagram_size": size,
        "from_client": from_client,
    }


def test_the_second_half_of_a_transfer_counts() -> None:
    """Ten slow datagrams, then ten datagrams 1 ms apart, with a 60-byte ACK for every second one."""
    slow = [datagram(100.0 * number, 1200, from_client=False) for number in range(10)]
    fast = [datagram(1000 + number, 1200, from_client=False) for number in range(10)]
    acks = [datagram(1000.5 + 2 * number, 60, from_client=True) for number in range(4)]
    packets = sorted(
        [*slow, *fast, *acks, datagram(5, 1200, from_client=True)], key=lambda packet: packet["time_ns"]
    )
    # A coalesced packet of the same datagram.
    found = ack_asymmetry.second_half([*packets, packets[-1]])
    assert found is not None
    assert found.mbit == pytest.approx(8 * 9 * 1242 / 1e6 / 0.009)
    assert (found.data_bytes, found.ack_bytes, found.acks) == (1242, 102, 4)
    assert found.seconds == pytest.approx(0.009)
    assert ack_asymmetry.second_half(packets[:1]) is None
    assert ack_asymmetry.second_half([]) is None


def test_a_path_is_expected_to_carry_what_its_acks_permit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At 0.05 Mbit/s back and a ratio of 2: 2 x 1242 / 102 x 0.05 Mbit/s."""
    experiment = find("ack-asymmetry")
    cell = named("ack-asymmetry", rate_to_server_mbit=0.05, queue_to_server_packets=10, ack_ratio=2)
    step_ms = 8 * 1242 / 1e3 / 1.25
    sent = [datagram(step_ms * number, 1200, from_client=False) for number in range(40)]
    acks = [datagram(step_ms * 2 * number + 1, 60, from_client=True) for number in range(20)]
    monkeypatch.setattr("testbed.trials.captures.captured_packets.connections", lambda *_: [[*sent, *acks]])
    (found,) = ack_asymmetry.cells(experiment, tmp_path, [trial(cell, queue_to_server_drops=3)])
    assert found.asymmetry == 200
    assert found.limit_mbit == found.expected_mbit == pytest.approx(0.05 * 2 * 1242 / 102)
    assert found.mbit == pytest.approx(1.25)
    assert (found.verdict, found.back_drops) == ("met", 3)
    assert found.limit_mbit is not None
    assert found.back_percent == pytest.approx(100 * 1.25 / found.limit_mbit, rel=0.06)
    rows = [trial(cell, queue_to_server_drops=3)]
    text = text_of(experiment, rows, tmp_path)
    assert "200:1" in text and "met" in text
    wide = named("ack-asymmetry", rate_to_server_mbit=0.2, queue_to_server_packets=10, ack_ratio=20)
    (other,) = ack_asymmetry.cells(experiment, tmp_path, [trial(wide)])
    assert (other.expected_mbit, other.verdict) == (10, "not met")


def test_the_survey_shows_which_clients_follow_a_request() -> None:
    experiment = find("ack-survey")
    rows = []
    for name, did, delay_us in (("quinn", 9.8, 1000), ("aioquic", 2.1, None)):
        plain = named("ack-survey", client=name, ack_ratio=None)
        asked = named("ack-survey", client=name, ack_ratio=10)
        rows += [
            trial(plain, min_ack_delay_us_client=delay_us, eliciting_per_ack_after100=2.0),
            trial(asked, min_ack_delay_us_client=delay_us, eliciting_per_ack_after100=did),
        ]
    rows.append(
        trial_row.without_trial("x", named("ack-survey", client="neqo", ack_ratio=None), 1, "unavailable", "")
    )
    found = {line.client: line for line in ack_survey.clients(experiment, rows)}
    assert [found[name].follows for name in ("quinn", "aioquic", "neqo")] == [True, False, None]
    assert [found[name].takes_requests for name in ("quinn", "aioquic", "neqo")] == [True, False, None]
    assert (found["quinn"].min_ack_delay_ms, found["aioquic"].published_ratio) == (1, "2-8")
    text = text_of(experiment, rows)
    assert "Not done here, 1 of 3: neqo." in text
    assert "quinn" in text.splitlines()[6]


@pytest.mark.parametrize(
    ("first", "later", "met"), [(1.83, 8.28, True), (2.5, 8.28, False), (1.83, 7.9, False), (1.6, 12, True)]
)
def test_two_published_ratios_are_compared_with_both_parts(first: float, later: float, met: bool) -> None:
    row = trial(
        named("ack-survey", client="chromium", ack_ratio=None),
        eliciting_per_ack_first100=first,
        eliciting_per_ack_after100=later,
    )
    (ratio, _) = ack_survey.checks(ack_survey.clients(find("ack-survey"), [row]))
    assert (ratio.found, ratio.met) == (f"{first:.2f}, then {later:.2f}", met)


def test_the_text_of_cells_names_verdicts_and_what_was_not_done(tmp_path: Path) -> None:
    experiment = find("ack-ratio")
    rows = lossless(ar2=440_000, ar10=450_000)
    rows.append(
        trial_row.without_trial("x", named("ack-ratio", rtt_ms=95, ack_ratio=2), 1, "guest_failed", "")
    )
    found = measures.results(experiment, tmp_path, rows)
    shown = found.summary().text(terminal=False)
    assert "RTT 30 ms: met: a ratio of 10 sends 4 to 5.2 times fewer ACKs than one of 2: 5.02 times." in shown
    assert "Not done here, 1 of 3: quinn-quinn-wfc-95ms-10up-reno-ar2-25late." in shown
    assert [line.as_dict()["ack_ratio"] for line in found.lines] == [2, 2, 10]


def test_published_values_are_of_existing_cells() -> None:
    for name in ("ack-ratio", "ack-loss"):
        experiment = find(name)
        found = cells.cells(experiment, [trial(cell) for cell in experiment.cells()])
        times = [line.published_transfer_ms for line in found if line.published_transfer_ms is not None]
        assert len(times) == sum(given.transfer_s is not None for given in experiment.transfer)
        shares = [line for line in found if line.published_client_percent is not None]
        published = (*experiment.transfer, *experiment.default)
        assert len(shares) == sum(given.client_percent is not None for given in published)
    clients = {cell.client for cell in find("ack-survey").cells()}
    assert clients >= {given.client for given in find("ack-survey").survey}
