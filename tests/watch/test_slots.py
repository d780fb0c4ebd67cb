"""The times of slots, and the log of slots."""

from __future__ import annotations

from itertools import islice, pairwise
from pathlib import Path

import pytest

from firstflight.egress.shared_limits import check_watch
from firstflight.errors import UsageError
from firstflight.settings import Settings, load
from scanner.planned.probes import SECOND_NS, plan, read_log, series
from tests.minimal import CONFIG, write

MINUTE_NS = 60 * SECOND_NS
START_NS = 1_795_154_400 * SECOND_NS + 7_123_456_789  # 7 s after a whole minute


def test_slots_are_on_the_grid_of_utc_whatever_the_start_of_the_period() -> None:
    watched = series("watch", ["a.test", "b.test"], (4,), 60, (1, 4))
    first = list(plan(watched, START_NS, START_NS + 10 * MINUTE_NS))
    later = list(plan(watched, START_NS + 3 * MINUTE_NS + 1, START_NS + 10 * MINUTE_NS))
    assert {slot.planned_ns for slot in later} < {slot.planned_ns for slot in first}
    assert [slot.number for slot in first] == list(range(20))
    for name, place in (("a.test", 1), ("b.test", 5)):
        times = [slot.planned_ns for slot in first if slot.series.domain == name]
        assert {time % MINUTE_NS for time in times} == {MINUTE_NS * place // 8}
        assert all(b - a == MINUTE_NS for a, b in pairwise(times))


def test_names_and_vantage_points_are_spread_over_the_interval() -> None:
    names = [f"n{i}.test" for i in range(6)]
    times = []
    for vantage in range(4):
        slots = islice(plan(series("owned", names, (4, 6), 1, (vantage, 4)), START_NS), 100)
        times += [slot.planned_ns for slot in slots]
    gaps = {b - a for a, b in pairwise(sorted(times)[50:-50])}
    assert max(gaps) - min(gaps) <= 1 and min(gaps) == SECOND_NS // 48


def test_a_log_survives_the_death_of_its_writers(tmp_path: Path) -> None:
    path = tmp_path / "slots.jsonl"
    assert read_log(path) == []
    path.write_text('{"slot": 1}\n{"slot": 2, "dom{"slot": 3}\n{"slot": 4')
    assert read_log(path) == [{"slot": 1}, {"slot": 3}]


def settings(tmp_path: Path, more: str, vantages: int = 2) -> Settings:
    path = write(tmp_path)
    others = "".join(f'[[vantage]]\nname = "v{n}"\n' for n in range(1, vantages))
    path.write_text(CONFIG + others + more)
    return load(path)[0]


def test_a_watch_that_could_pass_a_limit_is_refused(tmp_path: Path) -> None:
    check_watch(settings(tmp_path, ""), 30)
    with pytest.raises(UsageError, match=r"31 watched names .* 1\.03 probes a second"):
        check_watch(settings(tmp_path, ""), 31)
    # Owned names do not count for an address's limit, but for a prefix's limit.
    owned = '[watch]\nowned = ["a.test", "b.test", "c.test", "d.test"]\nownership = "ours"\n'
    check_watch(settings(tmp_path, owned), 30)
    with pytest.raises(UsageError, match="up to 13 probes a second"):
        check_watch(settings(tmp_path, owned, vantages=3), 20)
    check_watch(settings(tmp_path, owned + "[probe]\nper_prefix_rate = 13\n", vantages=3), 20)


def test_owned_names_need_a_declared_ownership(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="who owns these names"):
        settings(tmp_path, '[watch]\nowned = ["a.test"]\n')
    with pytest.raises(UsageError, match="not a domain name"):
        settings(tmp_path, '[watch]\nowned = ["a b"]\nownership = "ours"\n')
