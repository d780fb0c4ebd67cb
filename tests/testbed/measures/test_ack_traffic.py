"""The paper's equations for a client's traffic, from hand-made packets and rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from firstflight.errors import InputError
from reports.figures import compared as figures
from reports.figures import style, svg
from reports.numbers import compared, spread
from reports.numbers.compared import ComparisonPanel, series
from reports.numbers.spread import Spread
from testbed.measures import acks
from testbed.measures.acknowledgements import cells, checks, traffic
from testbed.measures.acknowledgements.traffic import Traffic
from testbed.trials.trial_row import TrialRow
from tests.testbed.experiments import find
from tests.testbed.measures.test_acks import named, trial

NS = 1_000_000


def packet(ms: float, number: int, frames: str, *, from_client: bool = False, **more: Any) -> dict[str, Any]:
    """Return a 1-RTT packet; one of the client has 40 bytes, one of the server 1,200."""
    size = 40 if from_client else 1200
    made = {"time_ns": round(ms * NS), "packet_number": number, "frames": frames, "from_client": from_client}
    of_datagram = {"frame_number": round(ms * 1000) * 2 + from_client, "size": size, "datagram_size": size}
    return {"type": "1rtt", **made, **of_datagram, **more}


def data(ms: float, number: int) -> dict[str, Any]:
    return packet(ms, number, f"stream 0 {number * 1000}+1000")


def ack(ms: float, ranges: str, further: str = "", **more: Any) -> dict[str, Any]:
    return packet(ms, 0, f"ack {ranges} delay 0{further}", from_client=True, **more)


def test_acks_by_the_timer_count_with_their_packets() -> None:
    """Ten packets at once, then three that wait for the timer, and a gap with a wait, which has a cause."""
    hello: dict[str, Any] = {"type": "initial", "datagram_size": 1200, "from_client": True}
    packets = [
        packet(0, 0, "crypto 0+300", **hello),
        packet(1, 0, "ack 0 delay 0", **{**hello, "type": "handshake", "datagram_size": 72}),
        # A coalesced packet of the same datagram.
        packet(1, 1, "padding 3", **{**hello, "type": "handshake", "datagram_size": 72}),
        *(data(10 + number / 10, number) for number in range(10)),
        ack(11, "0-9"),
        *(data(10 + number, number) for number in (10, 11, 12)),
        # 0.9 ms before packet 10 has waited 25 ms: timers may fire early.
        ack(44.1, "0-12", "; padding 2", datagram_size=44, size=44),
        data(50, 13),
        data(51, 15),
        ack(80, "15,0-13"),
        packet(81, 16, "ack 7 delay 0; padding 2"),
        data(82, 17),
        ack(85, "15-17,0-13", "; max_data 9"),
        packet(90, 18, "connection_close 0x0"),
    ]
    found = traffic.traffic(packets, 25, 30)
    assert found == Traffic(
        packets=16, by_timer=1, timer_packets=3, gaps=1, ack_bytes=68, handshake_bytes=1228 + 100
    )
    assert found.alpha(10) == pytest.approx(0.3)
    # A later packet restarts the order; a wait one ns shorter than the slack is no timer.
    early = [data(0, 0), {**ack(0, "0"), "time_ns": 24 * NS - 1}]
    assert traffic.traffic(early, 25, 30).by_timer == 0
    assert traffic.traffic([data(0, 0), ack(24, "0")], 25, 30).by_timer == 1


def test_gaps_within_one_rtt_are_one_event() -> None:
    """Gaps at 0, 30 and 31 ms: the second is exactly one RTT after the first, the third is later."""
    packets = [data(0, 1), data(30, 3), data(31, 5), data(32, 7), data(62, 8)]
    assert traffic.traffic(packets, 25, 30).gaps == 2
    nothing = traffic.traffic([], 25, 30)
    assert nothing == Traffic(0, 0, 0, 0, None, 0)
    assert (nothing.alpha(10), nothing.client_bytes(10, None, 1, 0.5)) == (None, None)


def test_the_equations_by_hand() -> None:
    """800 packets, 20 ACKs by the timer with two of ten packets each, 5 gaps, ACKs of 65 bytes."""
    found = Traffic(800, 20, 40, 5, 65, 2000)
    assert found.alpha(10) == 0.2
    assert found.client_bytes(10, None, 1, 0.2) == (80 + 16 + 5) * 65 + 2000
    assert found.client_bytes(10, None, 3, 0.5) == (80 + 10 + 15) * 65 + 2000
    assert found.client_bytes(2, (100, 10), 0, 0.5) == (50 + 70 + 10) * 65 + 2000
    assert Traffic(800, 0, 0, 0, 65, 2000).client_bytes(10, None, 1, None) == 80 * 65 + 2000


def captured(folder: Path, monkeypatch: pytest.MonkeyPatch, late: int) -> None:
    """Make each trial's capture show 100 packets; the last `late` have an ACK by the timer."""
    (folder / "path.pcap").touch()
    sent = [data(number / 10, number) for number in range(100 - late)]
    packets = [
        packet(0, 0, "crypto 0+9", type="initial", from_client=True, datagram_size=1200),
        *sent,
        ack(12, f"0-{99 - late}"),
        *(data(20, number) for number in range(100 - late, 100)),
        ack(200, "0-99"),
    ]
    monkeypatch.setattr("testbed.trials.captures.captured_packets.connections", lambda *_: [packets])


def kept(row: TrialRow, **more: object) -> TrialRow:
    return {**row, "capture_file": "path.pcap", "keys_file": "path.keys", "peer_eliciting": 100, **more}


@pytest.mark.parametrize(("late", "alpha", "met"), [(5, 0.5, True), (8, 0.8, False)])
def test_a_cell_s_equations_use_the_measured_alpha(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: int, alpha: float, met: bool
) -> None:
    captured(tmp_path, monkeypatch, late)
    cell = named("ack-ratio", rtt_ms=638, ack_ratio=10)
    rows = [kept(trial(cell), ip_bytes_server=100_000, ip_bytes_client=1950, ack_packets=10)]
    experiment = find("ack-ratio")
    (found,) = cells.cells(experiment, rows, tmp_path)
    assert found.equations is not None
    assert found.equations.alpha == alpha
    assert found.equations.acks == pytest.approx(10 + 1 - alpha)
    assert found.equations.client_percent == pytest.approx(((11 - alpha) * 68 + 1228) / 1000)
    assert found.equations.half_percent == pytest.approx((10.5 * 68 + 1228) / 1000)
    about = {check.expected.partition(",")[0]: check.met for check in checks._with_alpha([found])}
    assert about["an ACK by the timer covers half of the ratio's packets (alpha)"] is met
    assert about["equations 1 to 5 give the client's share of the server's bytes"]
    (without,) = cells.cells(experiment, [{**rows[0], "capture_file": None}], tmp_path)
    assert without.equations is None
    assert not list(checks._with_alpha([without]))
    text = acks.results(experiment, tmp_path, rows).summary().text(terminal=False)
    assert "Alpha: the share of a ratio's packets" in text
    assert "Alpha" not in acks.results(experiment, tmp_path, [trial(cell)]).summary().text(terminal=False)


def test_a_removed_capture_has_no_equations_and_a_damaged_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    captured(tmp_path, monkeypatch, 5)
    monkeypatch.setattr("testbed.trials.captures.captured_packets.connections", lambda *_: [])
    experiment = find("ack-ratio")
    rows = [kept(trial(named("ack-ratio", rtt_ms=638, ack_ratio=10)))]
    with pytest.raises(InputError, match="have 0 connections for 1 completed trials"):
        cells.cells(experiment, rows, tmp_path)
    (tmp_path / "path.pcap").unlink()
    (removed,) = cells.cells(experiment, rows, tmp_path)
    assert removed.equations is None


def test_a_browser_has_its_published_ratio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    captured(tmp_path, monkeypatch, 0)
    experiment = find("ack-ratio")
    rows = [kept(trial(named("ack-ratio", client=name))) for name in ("chromium", "firefox")]
    chromium, firefox = cells.cells(experiment, rows, tmp_path)
    assert chromium.equations is not None and firefox.equations is not None
    # All 100 packets have the first ratio.
    assert (chromium.equations.acks, firefox.equations.acks) == (50, 50)
    assert (chromium.published_client_percent, firefox.published_client_percent) == (None, 3)
    boxes = [panel for panel in acks.panels([chromium, firefox]) if panel.title == "Client, RTT 638 ms"]
    assert boxes[0].categories == ["chromium", "firefox"]


def test_an_alpha_of_a_published_ratio_is_not_in_the_mean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    captured(tmp_path, monkeypatch, 5)
    rows = [kept(trial(named("ack-ratio", client="firefox")))]
    (firefox,) = cells.cells(find("ack-ratio"), rows, tmp_path)
    assert firefox.equations is not None and firefox.equations.alpha == 2.5
    assert not any("(alpha)" in check.expected for check in checks._with_alpha([firefox]))


def test_a_spread_is_of_known_values() -> None:
    found = spread.of([5, None, 1, 2, 3, 4])
    assert found == Spread(1, 2, 3, 4, 5)
    assert spread.of(found.values) == found
    assert spread.of([7]) == Spread(7, 7, 7, 7, 7)
    assert spread.of([None]) is None


def test_several_values_in_a_category_are_a_box() -> None:
    several = series("a", [("x", 1.0), ("x", 2.0), ("x", 6.0), ("y", 3.0)])
    panel = ComparisonPanel("Times", "Time [s]", several)
    assert compared.described([panel]) == "Times, Time [s]: a: x 2 (1.5 to 4), y 3."
    (axes,) = (axes for axes in figures.draw([panel], style.SIZES[0]).axes if axes.get_visible())
    drawn: list[Any] = [line.get_xdata() for line in axes.get_lines()]
    assert [list(xs) for xs in drawn] == [[1, 6], [1.5, 4], [2, 3]]
    assert "<svg" in svg.inline(figures.draw([panel], style.SIZES[0]), "figure", "A title", "text")
