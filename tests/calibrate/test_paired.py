"""The statistics of pairs against published examples and values computed by hand."""

from __future__ import annotations

import pytest

from reports.numbers import paired


@pytest.mark.parametrize(
    ("first", "second", "exact", "mid"),
    [
        # Fagerland, Lydersen, Laake 2013: airway hyper-responsiveness, and the complement.
        (1, 7, 18 / 256, 10 / 256),
        (7, 1, 18 / 256, 10 / 256),
        # Their second example (59, 6, 16, 80), rounded there to 0.052 and 0.035.
        (6, 16, 0.0525, 0.0347),
        (0, 0, 1.0, 1.0),
        (0, 1, 1.0, 0.5),
        (0, 6, 2 / 64, 1 / 64),
        (5, 5, 1.0, 1.0),
        (0, 10_000, 0.0, 0.0),
    ],
)
def test_mcnemar(first: int, second: int, exact: float, mid: float) -> None:
    assert paired.mcnemar(first, second) == pytest.approx((exact, mid), abs=5e-5)


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ((20, 5, 10, 15), 0.4),
        ((45, 15, 25, 15), 0.1304),
        ((25, 35, 5, 35), 0.2593),
        ((10, 0, 0, 10), 1.0),
        ((0, 10, 10, 0), -1.0),
        ((10, 0, 0, 0), None),
        ((0, 0, 0, 10), None),
        ((0, 0, 0, 0), None),
        ((9, 1, 0, 0), 0.0),
    ],
)
def test_kappa(table: tuple[int, int, int, int], expected: float | None) -> None:
    assert paired.kappa(*table) == (None if expected is None else pytest.approx(expected, abs=5e-5))


@pytest.mark.parametrize(
    ("count", "of", "expected"),
    [
        (0, 0, None),
        # Newcombe 1998, table I, method 3.
        (81, 263, (0.3080, 0.2553, 0.3662)),
        (15, 148, (0.1014, 0.0624, 0.1605)),
        (0, 20, (0.0, 0.0, 0.1611)),
        (1, 29, (0.0345, 0.0061, 0.1718)),
        (20, 20, (1.0, 0.8389, 1.0)),
    ],
)
def test_share(count: int, of: int, expected: tuple[float, float, float] | None) -> None:
    assert paired.share(count, of) == (None if expected is None else pytest.approx(expected, abs=5e-5))
