"""Trends of gains over the RTT: Kendall's test against all orders, and the pairs with a trend."""

from __future__ import annotations

import itertools

import pytest

from testbed.measures.gains import trend
from testbed.measures.gains.trend import Gained
from tests.testbed.experiments import find


def by_all_orders(values: tuple[float, ...]) -> tuple[int, float]:
    """Return S and p by each order of the values."""

    def s(order: tuple[float, ...]) -> int:
        return sum((b > a) - (b < a) for a, b in itertools.combinations(order, 2))

    found = [s(order) for order in itertools.permutations(values)]
    return s(values), sum(abs(statistic) >= abs(s(values)) for statistic in found) / len(found)


@pytest.mark.parametrize(
    "values",
    [
        (1, 2, 3, 4, 5),
        (5, 4, 3, 2, 1),
        (1, 3, 2, 5, 4, 6),
        (2, 1, 4, 3, 6, 5, 7),
        (12.2, 12.2, 12.1, 12.2, 12.2, 12.1),
        (1, 1, 1, 2, 2, 3, 3),
        (3, 1, 3, 1, 3, 1, 2),
        (7, 7, 7, 7, 7),
    ],
)
def test_the_share_of_orders_is_exact(values: tuple[float, ...]) -> None:
    found = trend.trend(list(enumerate(values)))
    assert found is not None
    assert (found.s, found.p) == pytest.approx(by_all_orders(values))


def test_the_line_is_the_median_of_slopes_whatever_the_order_of_places() -> None:
    points = [(300.0, 15.0), (1.0, 12.0), (101.0, 13.0), (201.0, 14.0), (51.0, 90.0)]
    found = trend.trend(points)
    assert found is not None
    assert found.change == pytest.approx(299 * 0.01, rel=0.02)


@pytest.mark.parametrize(
    ("gains", "met"),
    [
        # One percent of the RTT: 3 ms from the smallest RTT to the largest.
        ([12.0, 12.1, 12.2, 12.5, 13.0, 14.0, 15.0], False),
        ([15.0, 14.0, 13.0, 12.5, 12.2, 12.1, 12.0], False),
        # It rises throughout, by less than the allowed 1 ms.
        ([12.0, 12.01, 12.02, 12.03, 12.04, 12.05, 12.06], True),
        # It changes by more, and has no order.
        ([12.0, 15.0, 11.0, 16.0, 10.0, 15.0, 14.0], True),
        ([12.2] * 7, True),
    ],
)
def test_a_trend_is_significant_and_changes_the_gain(gains: list[float], met: bool) -> None:
    experiment = find("iack-first-pto")
    rtts = [1, 9, 20, 50, 100, 200, 300]
    found = [Gained("quinn", "aioquic", *pair) for pair in zip(rtts, gains, strict=True)]
    (check,) = trend.checks(experiment, found)
    assert check.met is met
    assert check.about == "quinn at 7 RTTs from 1 to 300 ms, server aioquic"
    assert "Kendall's p is 0.05 or more, or the gain changes by at most 1 ms" in check.expected


def test_only_rtts_count_at_which_a_multiple_of_g_is_expected() -> None:
    """aioquic gains nothing from 200 ms, where its default PTO expires first; this is no trend."""
    experiment = find("iack-first-pto-logs")
    rtts = [1, 9, 20, 50, 100, 200, 250, 300]
    found = [Gained("aioquic", "aioquic", rtt_ms, 12 if rtt_ms < 200 else 0) for rtt_ms in rtts]
    (check,) = trend.checks(experiment, found)
    assert check.about == "aioquic at 5 RTTs from 1 to 100 ms, server aioquic"
    assert check.met
    # With fewer RTTs this test cannot find a trend, so there is no verdict.
    assert trend.checks(experiment, found[1:]) == []
    unknown = [Gained("aioquic", "aioquic", rtt_ms, None) for rtt_ms in rtts]
    assert trend.checks(experiment, unknown) == []
    assert trend.checks(find("iack-ttfb"), found) == []


def test_pairs_that_differ_in_more_than_the_rtt_have_separate_trends() -> None:
    """Two certificates. Together they would have each RTT twice, and a slope needs two different RTTs."""
    experiment = find("iack-first-pto")
    gains = {"1200der": [12.0] * 5, "3000der": [12.0, 13.0, 14.0, 15.0, 16.0]}
    found = [
        Gained("quinn", "aioquic", rtt_ms, gain_ms, more)
        for more, pair_gains_ms in gains.items()
        for rtt_ms, gain_ms in zip([1, 9, 20, 50, 100], pair_gains_ms, strict=True)
    ]
    about = "quinn at 5 RTTs from 1 to 100 ms"
    assert {check.about: check.met for check in trend.checks(experiment, found)} == {
        f"{about}, 1200der, server aioquic": True,
        f"{about}, 3000der, server aioquic": False,
    }
