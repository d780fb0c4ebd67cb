"""The sample of costly cases: equal seeds give equal samples, and every case occurs with some seed."""

from __future__ import annotations

import pytest

from tests import drawn

VALUES = list(range(10))


@pytest.fixture(autouse=True)
def by_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(drawn.ALL, raising=False)
    monkeypatch.setenv(drawn.SEED, "11")


def test_a_seed_draws_the_same_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    first = drawn.few("a", VALUES, 3)
    assert len(first) == 3 and first == sorted(first) == drawn.few("a", VALUES, 3)
    found = set(first)
    for seed in range(60):
        monkeypatch.setenv(drawn.SEED, str(seed))
        found |= set(drawn.few("a", VALUES, 3))
    assert found == set(VALUES)


def test_the_rest_is_what_the_sample_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sorted(drawn.few("a", VALUES, 3) + drawn.rest("a", VALUES, 3)) == VALUES
    monkeypatch.setenv(drawn.ALL, "1")
    assert drawn.rest("a", VALUES, 3) == []


def test_tests_draw_independently() -> None:
    assert len({tuple(drawn.few(name, VALUES, 3)) for name in "abcdefgh"}) > 1


@pytest.mark.parametrize(("variable", "count"), [(None, 3), ("", 3), ("0", 3), ("1", 10)])
def test_all_are_taken_on_demand(variable: str | None, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if variable is not None:
        monkeypatch.setenv(drawn.ALL, variable)
    assert len(drawn.few("a", VALUES, 3)) == count
    mark = drawn.parametrize("a", VALUES, 3)
    assert len(mark.args[1]) == count
    assert all([case_mark.name for case_mark in case.marks] == ["drawn"] for case in mark.args[1])


def test_no_more_are_drawn_than_exist() -> None:
    assert drawn.few("a", VALUES[:2], 3) == VALUES[:2]
