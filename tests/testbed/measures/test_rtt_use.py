"""Timeouts of clients from their packets, and conclusions about their RTT estimates."""

from __future__ import annotations

from typing import Any

import pytest

from testbed.measures import rtt_use
from testbed.measures.estimates import probe_timers, variance
from testbed.measures.estimates.probe_timers import LaterTimer, Sample
from testbed.measures.estimates.variance import Variance
from testbed.measures.rtt_use import RttUsed
from tests.testbed.experiments import find

HELLO = "crypto 0+300; padding 800"


def packet(ms: float, frames: str | None, kind: str = "initial", number: int | None = None) -> dict[str, Any]:
    """Return a packet of the client if it has a number, else of the server."""
    return {
        "since_start_us": round(1000 * ms),
        "type": kind,
        "frames": frames,
        "from_client": number is not None,
        "packet_number": number,
    }


@pytest.mark.parametrize(
    ("probe", "expected"),
    [
        (packet(36, "ping; padding 1", number=2), (9000, 27_000)),
        (packet(209.2, HELLO, number=2), (9000, 200_200)),
        (packet(18, "ack 1 delay 0"), None),
    ],
)
def test_a_probe_after_a_retry(probe: dict[str, Any], expected: tuple[int, int] | None) -> None:
    packets = [packet(0, HELLO, number=0), packet(9, None, "retry"), packet(9, HELLO, number=1), probe]
    assert probe_timers.after_retry(packets) == expected
    assert probe_timers.after_retry([packets[0], packets[2], probe]) is None


def test_a_second_flight_is_repeated_after_its_last_handshake_packet() -> None:
    flight = [
        packet(59, "ack 1 delay 0", "handshake", 2),
        packet(59.3, "crypto 0+52", "handshake", 3),
        packet(59.3, "stream 0 0+47 fin", "1rtt", 4),
        packet(65.3, "ping; padding 9", "1rtt", 5),
        packet(100, "ack 1 delay 0; padding 9", "handshake", 6),
    ]
    assert probe_timers.repeated_after(flight) is None
    assert probe_timers.repeated_after([*flight, packet(236.3, "crypto 0+52", "handshake", 7)]) == 171_000


def test_samples_are_of_new_packets_that_elicit_acks() -> None:
    packets = [
        packet(0, HELLO, number=0),
        packet(9, "ack 0 delay 0"),
        packet(10, "ack 0 delay 0", number=1),
        packet(27, "ping; padding 9", number=2),
        packet(30, "ack 0-1 delay 0"),
        packet(37, "ack 2,0 delay 125; crypto 0+90"),
        packet(38, "ack 0-2 delay 0"),
    ]
    assert list(probe_timers.initial_samples(packets)) == [
        Sample(9000, 9000, 0),
        Sample(37_000, 10_000, 1000),
    ]


def probing(*probes_ms: float) -> list[dict[str, Any]]:
    """Return two late answers, to the ClientHello and to a probe, and a shorter one to the second probe."""
    answered = [
        packet(0, HELLO, number=0),
        packet(48, "ack 0 delay 0"),
        packet(145, "ping", number=1),
        packet(193, "ack 0-1 delay 0"),
        packet(385, "ping", number=2),
        packet(385.9, "ping", number=3),
        packet(394.9, "ack 0-3 delay 0"),
    ]
    return answered + [packet(ms, "ping", number=4 + place) for place, ms in enumerate(probes_ms)]


def test_a_timer_runs_from_the_last_probe_before_the_shorter_sample() -> None:
    timer = probe_timers.later_timer(probing(930.5, 931.4))
    assert timer == LaterTimer(544_600, 240_000, 2, (48_000, 48_000, 9000))
    assert probe_timers.later_timer(probing()) is None
    assert probe_timers.later_timer(probing(930.5)[:4]) is None


@pytest.mark.parametrize(
    ("interval_us", "before_us", "timeout_us", "restarts", "backs_off"),
    [
        # By RFC 9002, 136.1 ms: times four after two probes, or not.
        (544_500, 241_000, 136_125, False, True),
        (136_200, 121_000, 136_200, False, False),
        (27_500, 121_000, 27_500, True, False),
        (108_000, 241_000, 27_000, True, True),
        # aioquic's variation makes it shorter, and so does picoquic's.
        (388_500, 241_000, 97_125, False, True),
        (113_000, 102_000, 113_000, False, False),
    ],
)
def test_a_timer_follows_from_all_samples_or_from_the_last(
    interval_us: int, before_us: int, timeout_us: float, restarts: bool, backs_off: bool
) -> None:
    found = rtt_use.later(LaterTimer(interval_us, before_us, 2, (48_000, 48_000, 9000)))
    assert found[:3] == pytest.approx((timeout_us, 136_125, 27_000))
    assert found[3:] == (restarts, backs_off)


@pytest.mark.parametrize(("interval_us", "expected"), [(273_000, (False, True)), (146_000, (False, False))])
def test_after_one_probe_the_timeout_itself_shows_whether_a_client_backs_off(
    interval_us: int, expected: tuple[bool, bool]
) -> None:
    """The timeout of the first probe is the same with both."""
    assert rtt_use.later(LaterTimer(interval_us, 121_000, 1, (48_000, 48_000, 9000)))[3:] == expected


def test_without_an_earlier_probe_nothing_shows_whether_a_client_backs_off() -> None:
    assert rtt_use.later(LaterTimer(27_000, None, 0, (48_000, 9000)))[3:] == (True, None)


@pytest.mark.parametrize(("probe_ms", "expected"), [(27.0, True), (54.0, True), (200.2, False), (None, None)])
def test_a_retry_is_a_sample_if_the_probe_comes_early(probe_ms: float | None, expected: bool | None) -> None:
    assert rtt_use._uses_retry(probe_ms, 9.0) is expected


@pytest.mark.parametrize(
    ("repeated_ms", "delay_ms", "expected"),
    [(177.2, 50.0, False), (295.0, 50.0, False), (27.3, 50.0, True), (103.3, 50.0, True), (177.2, 0.0, None)],
)
def test_ack_delay_is_subtracted_if_the_flight_is_repeated_early(
    repeated_ms: float, delay_ms: float, expected: bool | None
) -> None:
    assert rtt_use._subtracts(repeated_ms, 59.0, delay_ms) is expected


def test_the_table_has_words_for_each_answer() -> None:
    experiment = find("iack-estimate")
    aioquic = RttUsed(
        "aioquic", "1.7.2", 3, 200.2, 9, False, 178.2, 59, 50, False, 97.1, 136.1, 27, False, True
    )
    msquic = RttUsed("msquic", None, 0, *[None] * 12)
    text = rtt_use.summary(experiment, [aioquic, msquic]).text(terminal=False)
    row = next(line for line in text.splitlines() if line.startswith("aioquic"))
    assert row.split() == [
        *("aioquic", "1.7.2", "200.2", "no", "178.2", "no", "97.1", "136.1", "27.0", "no", "yes")
    ]
    assert "Unavailable as clients here, 1 of 2: msquic." in text
    assert [len(panel.series) for panel in rtt_use.panels([aioquic, msquic])] == [1, 1, 1]


def metrics(formula: str, samples: list[float], unit: int = 1) -> list[dict[str, Any]]:
    """Return the rows of a log whose variation follows a formula."""
    smoothed, variation, rows = samples[0], samples[0] / 2, []
    smallest = samples[0]
    for place, sample in enumerate(samples):
        smallest = min(smallest, sample)
        old = smoothed
        if place:
            smoothed = 0.875 * smoothed + 0.125 * sample
            reference = {"A.7": old, "5.3": smoothed, "smallest": smallest}[formula]
            variation = 0.75 * variation + 0.25 * abs(reference - sample)
        values = {"smoothed_rtt_us": smoothed, "rtt_variance_us": variation, "min_rtt_us": smallest}
        rows.append({"updated": True, **{name: unit * round(value / unit) for name, value in values.items()}})
    return rows


SAMPLES = [100_000.0, 130_000, 180_000, 110_000, 240_000, 105_000, 160_000, 300_000, 120_000]


@pytest.mark.parametrize("formula", ["A.7", "5.3", "smallest"])
def test_a_variation_fits_its_formula_only(formula: str) -> None:
    found = variance.counted(metrics(formula, SAMPLES))
    assert found.updates >= 6
    counts = {"A.7": found.before, "5.3": found.after, "smallest": found.smallest}
    assert counts == {**dict.fromkeys(counts, 0), formula: found.updates}
    assert found.text() == f"{formula} 100 %"


def test_an_update_counts_only_if_the_formulas_differ() -> None:
    assert variance.counted(metrics("A.7", [9000.0] * 9)) == Variance()
    assert variance.counted([]) == Variance() and Variance().text() == "-"
    # In whole milliseconds, small differences disappear.
    assert variance.counted(metrics("A.7", [9000.0, 9500, 9100, 9900], unit=1000)).updates == 0
    assert Variance(3, 0, 0, 0).text() == "none"
    assert Variance(3, 2, 1, 0) + Variance(1, 1, 0, 0) == Variance(4, 3, 1, 0)
