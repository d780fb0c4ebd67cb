"""Targets held without an object per name: what was added is what is read."""

from __future__ import annotations

import pytest

from crawler.lists.held_targets import HeldTargets, Target

GIVEN = [
    Target(1, "a.example"),
    Target(2**32 - 1, "xn--bcher-kva.example", 1_000),
    Target(None, "b" * 253, 2**32 - 1),
    Target(7, "x"),
]


@pytest.mark.parametrize("number", range(len(GIVEN) + 1))
def test_targets_are_as_added(number: int) -> None:
    held = HeldTargets(GIVEN[:number])
    assert list(held) == GIVEN[:number]
    assert held == GIVEN[:number]
    assert (len(held), bool(held)) == (number, number > 0)
    assert [held[place] for place in range(-number, number)] == 2 * GIVEN[:number]
    with pytest.raises(IndexError):
        held[number]


@pytest.mark.parametrize("part", [slice(0, 2), slice(2, 9), slice(4, 9), slice(None, None, -1)])
def test_slices_are_those_of_a_list(part: slice) -> None:
    assert HeldTargets(GIVEN)[part] == GIVEN[part]


def test_other_targets_are_not_equal() -> None:
    held = HeldTargets(GIVEN)
    assert held != GIVEN[:-1]
    assert held != [*GIVEN[:-1], Target(8, "x")]
    assert held != "targets"
    held.append(Target(8, "y"))
    assert held[-1] == Target(8, "y")


@pytest.mark.parametrize("bad", [-1, 2**32])
def test_a_rank_out_of_range_is_refused(bad: int) -> None:
    with pytest.raises(OverflowError):
        HeldTargets([Target(bad, "a.example")])
