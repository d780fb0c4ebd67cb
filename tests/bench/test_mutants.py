"""The sample of `python -m bench.mutants`: the selected mutants, and their distribution."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections import Counter

import pytest

from bench.mutants import fraction, part, sample
from bench.python_mutants import failed_tests

SIZES = {"a.rs": 100, "b.rs": 50, "c.rs": 7, "d.rs": 1}
MUTANTS = [{"file": file, "name": f"{file}:{line}"} for file, size in SIZES.items() for line in range(size)]


@pytest.mark.parametrize(
    ("count", "by_file"),
    [
        (158, SIZES),
        (1000, SIZES),
        (79, {"a.rs": 50, "b.rs": 25, "c.rs": 4}),
        (16, {"a.rs": 10, "b.rs": 5, "c.rs": 1}),
        (10, {"a.rs": 6, "b.rs": 3, "c.rs": 1}),
    ],
)
def test_files_have_shares_by_their_number_of_mutants(count: int, by_file: dict[str, int]) -> None:
    names = sample(MUTANTS, count, 11)
    assert Counter(name.split(":")[0] for name in names) == by_file
    assert len(set(names)) == len(names)


def test_only_the_seed_decides() -> None:
    assert sample(MUTANTS, 40, 11) == sample(MUTANTS[::-1], 40, 11)
    assert sample(MUTANTS, 40, 11) != sample(MUTANTS, 40, 12)


@pytest.mark.parametrize("parts", [1, 3, 7])
def test_parts_make_up_the_sample(parts: int) -> None:
    names = sample(MUTANTS, 40, 11)
    divided = [part(names, number, parts) for number in range(1, parts + 1)]
    assert sorted(name for names_of_part in divided for name in names_of_part) == sorted(names)
    assert max(map(len, divided)) - min(map(len, divided)) <= 1


def test_a_part_is_given_by_two_numbers() -> None:
    assert (fraction("1/1"), fraction("2/5")) == ((1, 1), (2, 5))
    for wrong in ["", "0/2", "3/2", "1", "1/0", "-1/2", "1/2/3", "a/b"]:
        with pytest.raises(ArgumentTypeError, match="not a part"):
            fraction(wrong)


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("FAILED tests/a/test_b.py::test_c - AssertionError: 1 - 2", {"tests/a/test_b.py::test_c"}),
        ("FAILED tests/a/test_b.py::test_c[no such file] - x", {"tests/a/test_b.py::test_c[no such file]"}),
        ("ERROR tests/a/test_b.py::test_c", {"tests/a/test_b.py::test_c"}),
        ("SKIPPED [1] tests/a/test_b.py:87: no server", set()),
        ("E   FAILED tests/a/test_b.py::test_c - x", set()),
    ],
)
def test_failed_tests_are_found_in_the_summary(line: str, names: set[str]) -> None:
    assert failed_tests(f"1 failed\n{line}\n") == names
