"""The probe timeout, compared with closed forms of RFC 9002's recurrences."""

from __future__ import annotations

from itertools import islice

import pytest

from reports.numbers import rfc9002


@pytest.mark.parametrize("rtt", [800.0, 9_000.0, 250_000.0])
def test_with_equal_samples_the_variation_shrinks_by_a_quarter(rtt: float) -> None:
    """smoothed stays R, rttvar is R/2 x (3/4)^n: PTO = R + max(2R x (3/4)^n, 1 ms)."""
    instant, _ = rfc9002.evolution(rtt, 4_000, 30)
    assert instant == pytest.approx([rtt + max(2 * rtt * 0.75**n, 1000) for n in range(30)])


def test_a_first_sample_that_is_too_long_is_forgotten_by_eighths() -> None:
    """smoothed is R + d (7/8)^n; rttvar increases by a quarter of the previous error of smoothed."""
    rtt, delta = 9_000.0, 4_000.0
    _, waiting = rfc9002.evolution(rtt, delta, 40)
    variation = (rtt + delta) / 2
    for n, pto in enumerate(waiting):
        if n:
            variation = 0.75 * variation + 0.25 * delta * 0.875 ** (n - 1)
        assert pto == pytest.approx(rtt + delta * 0.875**n + max(4 * variation, 1000)), n
    assert waiting[0] == 39_000  # 3 x (9 + 4) ms


def test_a_jump_in_the_samples_by_hand() -> None:
    """100 ms, then 200 ms: rttvar = 3/4 x 50 + 1/4 x 100 = 62.5, smoothed = 112.5."""
    assert list(rfc9002.pto_series([100_000, 200_000])) == [300_000, 112_500 + 4 * 62_500]
    assert list(islice(rfc9002.pto_series([]), 1)) == []


def test_improvement_is_the_papers_from_half_a_millisecond_on() -> None:
    for rtt in (500, 3_000, 250_000):
        for delta in (1, 4_000, 100_000):
            assert rfc9002.improvement(rtt, delta) == pytest.approx(rfc9002.paper_improvement(rtt, delta))
        assert rfc9002.spurious_improvement(rtt) == pytest.approx(rfc9002.PAPER_SPURIOUS)
    # Below, a first PTO is the sample + 1 ms: (0.4 + 1 - (0.1 + 1)) / 0.1 = 3; the paper's rule gives 9.
    assert rfc9002.improvement(100, 300) == pytest.approx(3)
    assert rfc9002.paper_improvement(100, 300) == pytest.approx(9)
    # delta = first PTO = 1.1 ms: (3 x 1.2 - 1.1) / 0.1
    assert rfc9002.spurious_improvement(100) == pytest.approx(25)
