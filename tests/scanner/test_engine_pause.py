"""The pause between two engines, with limits below one a second."""

from __future__ import annotations

from pathlib import Path

import pytest

from firstflight import settings
from scanner.calibrate import engines
from scanner.driver import engine_pause
from tests import minimal


@pytest.mark.parametrize(
    ("address", "prefix", "gap_s", "pause_s", "calibrate_s"),
    [
        (1, 10, 0, 0, 1),
        (0, 0, 0, 0, 0),
        (0, 0, 3, 0, 3),
        (0.1, 10, 3, 10, 10),
        (1, 0.25, 0, 4, 4),
        (0.5, 0.25, 30, 4, 30),
    ],
)
def test_the_smallest_limit_decides(
    tmp_path: Path, address: float, prefix: float, gap_s: float, pause_s: float, calibrate_s: float
) -> None:
    changes = [
        f"probe.per_address_rate={address}",
        f"probe.per_prefix_rate={prefix}",
        f"calibrate.gap_s={gap_s}",
    ]
    in_force, _ = settings.load(minimal.write(tmp_path), changes)
    assert (engine_pause.pause_s(in_force), engines.pause_s(in_force)) == (pause_s, calibrate_s)
