"""The rule that pauses probing of a network, with known numbers."""

from __future__ import annotations

import pytest

from firstflight.settings import Backoff
from scanner.backoff.detector import SECOND_NS, Detector, PauseVerdict, fisher

RULE = Backoff()  # baseline of 300 s, windows of 120 s, 30 probes, factor 2, 10 %


def judged(before: tuple[int, int], now: tuple[int, int], sign: str = "timeout") -> list[PauseVerdict]:
    """Return the verdicts on an AS for (bad, all) probes in the baseline, and after it."""
    detector = Detector(RULE)

    def add(counts: tuple[int, int], first_s: float, last_s: float) -> None:
        bad, probes = counts
        for n in range(probes):
            sent_ns = round((first_s + (last_s - first_s) * n / probes) * SECOND_NS)
            detector.add(64500, sent_ns, n < bad and sign == "timeout", n < bad and sign == "retry")

    add(before, 1, 300)
    add(now, 400, 500)
    return list(detector.verdicts())


@pytest.mark.parametrize("sign", ["timeout", "retry"])
def test_a_share_that_surely_doubled_is_reported(sign: str) -> None:
    (verdict,) = judged((2, 60), (7, 30), sign=sign)
    assert (verdict.asn, verdict.sign) == (64500, sign)
    assert (verdict.baseline, verdict.window) == ((2, 60), (7, 30))
    assert verdict.since_ns == 400 * SECOND_NS
    assert "7 of 30" in str(verdict) and "2 of 60" in str(verdict)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ((0, 60), (1, 3)),  # 1 of 3 may be chance
        ((0, 60), (29, 29)),  # one probe too few to decide
        ((0, 60), (2, 30)),  # a small share
        ((6, 60), (6, 30)),  # doubled, but that may be chance
        ((0, 30), (4, 30)),  # the same
        ((30, 60), (45, 50)),  # high, not doubled
        ((40, 60), (60, 60)),  # more than half in the baseline: it cannot double
    ],
)
def test_less_than_that_is_not(before: tuple[int, int], now: tuple[int, int]) -> None:
    assert judged(before, now) == []


def test_timeouts_and_retries_are_not_added_up() -> None:
    detector = Detector(RULE)
    for n in range(60):
        detector.add(1, n * SECOND_NS, False, n % 2 == 0)
    for n in range(60):
        detector.add(1, (400 + n) * SECOND_NS, n % 5 == 0, n % 2 == 0)
    (verdict,) = detector.verdicts()
    assert (verdict.sign, verdict.window) == ("timeout", (12, 60))


def test_the_window_slides_and_first_minutes_are_long_enough() -> None:
    detector = Detector(RULE)
    # With few probes a minute, the baseline is extended until it has 30 probes.
    for n in range(30):
        detector.add(1, n * 60 * SECOND_NS, False, False)
    # After two bad minutes, probes are good again: only probes in the last 120 s count.
    for n in range(40):
        detector.add(1, (2000 + n) * SECOND_NS, n < 20, False)
    assert [verdict.window for verdict in detector.verdicts()] == [(20, 40)]
    for n in range(60):
        detector.add(1, (2200 + n) * SECOND_NS, False, False)
    assert list(detector.verdicts()) == []


def test_after_a_pause_the_window_restarts_and_the_baseline_is_kept() -> None:
    detector = Detector(RULE)
    for n in range(60):
        detector.add(1, n * 5 * SECOND_NS, False, False)
    for n in range(40):
        detector.add(1, (400 + n) * SECOND_NS, True, False)
    assert len(list(detector.verdicts())) == 1
    detector.restart_window(1, 1000 * SECOND_NS)
    detector.add(1, 450 * SECOND_NS, True, False)  # in flight at the start of the pause
    assert list(detector.verdicts()) == []
    for n in range(30):
        detector.add(1, (1001 + n) * SECOND_NS, True, False)
    assert [(v.baseline, v.window) for v in detector.verdicts()] == [((0, 60), (30, 30))]


def test_probes_count_in_the_window_in_which_they_were_sent_whatever_ends_first() -> None:
    detector = Detector(RULE)
    for n in range(60):
        detector.add(1, n * SECOND_NS, False, False)
    # Timeouts finish after the answers to later probes. Probes at 380 s and earlier are outside the window.
    for n in range(40):
        detector.add(1, (500 - n) * SECOND_NS, n % 2 == 0, False)
    for at in (379, 380, 381, 381):
        detector.add(1, at * SECOND_NS, True, True)
    assert [(v.sign, v.window, v.since_ns) for v in detector.verdicts()] == [
        ("timeout", (22, 42), 381 * SECOND_NS)
    ]
    detector.add(1, 560 * SECOND_NS, False, False)
    assert [v.window for v in detector.verdicts()] == [(20, 41)]
    # A late result for a probe that is too old does not count.
    detector.add(1, 440 * SECOND_NS, True, False)
    assert [v.window for v in detector.verdicts()] == [(20, 41)]


def test_networks_are_judged_apart() -> None:
    detector = Detector(RULE)
    for asn in (1, 2):
        for n in range(60):
            detector.add(asn, n * SECOND_NS, False, False)
        for n in range(60):
            detector.add(asn, (400 + n) * SECOND_NS, asn == 2, False)
    assert [verdict.asn for verdict in detector.verdicts()] == [2]


@pytest.mark.parametrize(
    ("before", "now", "chance"),
    [
        # Fisher's tea experiment: 3 of 4 against 1 of 4.
        ((1, 4), (3, 4), 17 / 70),
        ((0, 5), (5, 5), 1 / 252),
        ((5, 5), (0, 5), 1.0),
        ((0, 30), (0, 30), 1.0),
    ],
)
def test_fishers_exact_test(before: tuple[int, int], now: tuple[int, int], chance: float) -> None:
    assert fisher(before, now) == pytest.approx(chance)
