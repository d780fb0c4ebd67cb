"""The delay of slow start with fewer ACKs, from hand-made packets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from testbed.experiment.cell import Cell
from testbed.measures import byte_delay
from testbed.measures.byte_delay import ByteDelay
from testbed.trials import trial_row
from testbed.trials.trial_row import TrialRow
from tests.testbed.experiments import find
from tests.testbed.experiments import text as text_of

OWN = find("ack-byte-delay")


def packet(number: int, ms: float, **more: Any) -> dict[str, Any]:
    made = {"frame_number": number, "time_ns": round(ms * 1e6), "from_client": False, "type": "1rtt"}
    return {**made, "datagram_size": 1228, **more}


def named(ratio: int) -> Cell:
    found: Cell
    (found,) = (cell for cell in OWN.cells() if (cell.rtt_ms, cell.ack_ratio) == (638, ratio))
    return found


def test_full_datagrams_of_the_server_count() -> None:
    packets = [
        packet(1, 5, type="handshake"),
        packet(2, 10),
        # A second packet of the same datagram, one of the client, an ACK, and the smallest that is full.
        packet(2, 10),
        packet(3, 11, from_client=True),
        packet(4, 12, datagram_size=999),
        packet(5, 13.5, datagram_size=1000),
    ]
    assert byte_delay.arrivals_ms(packets) == [0, 3.5]
    assert byte_delay.arrivals_ms([]) == []
    assert byte_delay.marks() == [10, 30, 70, 150, 310, 630]


@pytest.mark.parametrize(("step_ms", "met"), [(8, True), (0, False), (9, False)])
def test_a_ratio_is_compared_with_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step_ms: int, met: bool
) -> None:
    """With ratio 10 each round trip adds a delay of `step_ms`; 100 packets arrive in total."""

    def connections(_: Path, rows: list[TrialRow]) -> list[list[dict[str, Any]]]:
        late = step_ms if "ar10" in rows[0]["cell"] else 0
        trips = [sum(number >= mark for mark in (10, 30, 70)) for number in range(100)]
        return [[packet(number, number + late * trip) for number, trip in enumerate(trips)] for _ in rows]

    monkeypatch.setattr("testbed.trials.captures.captured_packets.connections", connections)
    rows = [trial_row.without_trial("x", named(ratio), 1, "done", None) for ratio in (2, 10)]
    rows.append(trial_row.without_trial("x", named(20), 1, "timeout", None))
    found = byte_delay.rounds(OWN, tmp_path, rows)
    assert [(delay.packets, delay.at_ms, delay.later_ms, delay.model_ms) for delay in found[:3]] == [
        (10, 9, None, None),
        (30, 29, None, None),
        (70, 69, None, None),
    ]
    # 8 packets of 1,242 bytes at 10 Mbit/s for each round trip before.
    assert [delay.later_ms for delay in found[6:9]] == [0, step_ms, 2 * step_ms]
    assert [delay.model_ms for delay in found[6:9]] == pytest.approx([0, 7.9488, 15.8976])
    # No further packets arrived.
    assert [(delay.at_ms, delay.later_ms) for delay in found[9:12]] == [(None, None)] * 3
    text = text_of(OWN, rows, tmp_path)
    verdict = "met" if met else "not met"
    expected = "after the first round trip it gets later as in the model, within 10 %"
    assert f"RTT 638 ms, ratio 10: {verdict}: {expected}: {2 * step_ms:.1f} for 15.9 ms." in text
    assert "Not done here, 1 of 3: quinn-quinn-wfc-638ms-2up-reno-ar20-25late." in text
    panels = byte_delay.panels(found)
    assert [(panel.title, panel.axis) for panel in panels] == [
        ("RTT 638 ms", "Packets"),
        ("RTT 638 ms", "Later than ratio 2 [ms]"),
    ]
    assert panels[0].series[0].points == ((0.009, 10), (0.029, 30), (0.069, 70))


def came(monkeypatch: pytest.MonkeyPatch, packets: int, step_ms: dict[str, float]) -> None:
    """Make `packets` packets arrive in each trial, `step_ms` further apart with ratio 10."""

    def connections(_: Path, rows: list[TrialRow]) -> list[list[dict[str, Any]]]:
        client = rows[0]["client"]
        step = (1 if client == "quinn" else 3) + step_ms[client] * ("ar10" in rows[0]["cell"])
        return [[packet(number, number * step) for number in range(packets)] for _ in rows]

    monkeypatch.setattr("testbed.trials.captures.captured_packets.connections", connections)


@pytest.mark.parametrize(
    ("packets", "rtt_ms", "checks"),
    [
        # Only the first round trip; then one datagram too few to complete the second.
        (10, 638, 0),
        (29, 638, 0),
        (30, 638, 1),
        # 10 packets fill the path, 20 do not.
        (100, 19, 0),
        (100, 20, 1),
    ],
)
def test_without_a_value_of_the_model_there_is_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packets: int, rtt_ms: float, checks: int
) -> None:
    experiment = of_both(("quinn",), rtt_ms)
    came(monkeypatch, packets, {"quinn": 0.0})
    rows = [trial_row.without_trial("x", cell, 1, "done", None) for cell in experiment.cells()]
    assert len(byte_delay.summary(experiment, byte_delay.rounds(experiment, tmp_path, rows)).checks) == checks


def test_a_client_is_compared_with_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = of_both(("quinn", "quic-go"), 638)
    came(monkeypatch, 30, {"quinn": 1.0, "quic-go": 2.0})
    rows = [trial_row.without_trial("x", cell, 1, "done", None) for cell in experiment.cells()]
    found = {
        (delay.client, delay.round): delay.later_ms
        for delay in byte_delay.rounds(experiment, tmp_path, rows)
        if delay.ack_ratio == 10 and delay.at_ms is not None
    }
    assert found == {("quinn", 1): 9, ("quinn", 2): 29, ("quic-go", 1): 18, ("quic-go", 2): 58}


def of_both(clients: tuple[str, ...], rtt_ms: float) -> ByteDelay:
    """Return a user's own experiment with ratios 2 and 10."""
    conditions = {"server": "quinn", "answering": "wfc", "rtt_ms": rtt_ms, "rate_mbit": 10}
    vary = {"client": list(clients), "ack_ratio": [2, 10]}
    return ByteDelay.model_validate(
        {"title": "own", "measure": "byte_delay", "held": conditions, "vary": vary}
    )
