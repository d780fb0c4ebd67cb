"""Verdicts of `python -m bench prober`: each measurement counts."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench.engines import kernel_alone, low_rates, prober
from bench.engines.kernel_alone import KernelAlone
from bench.results import Values

MEASUREMENTS = ("_speed", "_memory", "_rate", "low_rates", "kernel_passes", "watch")


@pytest.mark.parametrize("missed", [None, *MEASUREMENTS])
def test_every_measurement_counts_and_all_are_made(
    monkeypatch: pytest.MonkeyPatch, missed: str | None
) -> None:
    made = []

    def measure(name: str, *_: object) -> bool:
        made.append(name)
        return name != missed

    for name in MEASUREMENTS:
        monkeypatch.setattr(prober, name, partial(measure, name))
    assert prober._measure(Path(), 443, True, Values()) is (missed is None)
    assert made == list(MEASUREMENTS)
    made.clear()
    prober._measure(Path(), 443, True, Values(), ["watch", "low_rates"])
    assert made == ["low_rates", "watch"]


@pytest.mark.parametrize(
    ("cpu_ms", "kept"),
    [
        ({50: 60, 200: 60, 500: 60, 1000: 60}, True),
        ({50: 61, 200: 60, 500: 60, 1000: 60}, False),
        ({50: 60, 200: 60, 500: 60, 1000: 61}, False),
    ],
)
def test_the_goal_holds_at_each_low_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cpu_ms: dict[int, int], kept: bool
) -> None:
    """The goal is 1.5 times the CPU time at 2,000 a second. Two runs at this rate use 35 and 45 ms."""
    beside = iter([35, 45])

    def probe(_folder: Path, targets: Path, options: list[str], _sink: str) -> SimpleNamespace:
        has_single_target = len(targets.read_text().splitlines()) == 2
        rate = int(options[1])
        used = 5 if has_single_target else next(beside) if rate == low_rates.RATE else cpu_ms[rate]
        return SimpleNamespace(used=SimpleNamespace(cpu_s=used / 1000, sleeps=1))

    monkeypatch.setattr(low_rates, "probe", probe)
    monkeypatch.setattr(low_rates, "_system_calls", lambda *_: "1.00")
    # The kernel's time may be unknown.
    alone = iter([None, 10.0, 11.0, 12.0, None, 14.0])
    monkeypatch.setattr(kernel_alone, "us_per_target", lambda *_: next(alone))
    kernel, values = KernelAlone(), Values()
    assert low_rates.low_rates(tmp_path, 443, 10, kernel, values) is kept
    assert any(line["missed"] for line in values.lines) is not kept
    found = {line["what"]: line["measured"] for line in values.lines}
    assert found["CPU time per target at 2,000/s"] == 4000
    assert found["the kernel's share at 2,000/s, 4 probes in a pass"] is None
    assert [kernel.at(rate) for rate in (50, 200, 500, 1000, 2000)] == [10.0, 11.0, 12.0, None, None]
