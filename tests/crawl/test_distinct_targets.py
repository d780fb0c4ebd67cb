"""Targets on disk: reading returns the added targets, the first of each name, with any block size."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

from crawler.lists import distinct_targets
from crawler.lists.distinct_targets import DistinctTargets, Target
from firstflight.errors import OutputError

GIVEN = [
    Target(1, "a.example"),
    Target(2**32 - 1, "xn--bcher-kva.example", 1_000),
    Target(None, "b" * 253, 2**32 - 1),
    Target(7, "x"),
]


@pytest.fixture(params=[1, 2, 3, 65_536])
def block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Set the number of targets per block."""
    size: int = request.param
    monkeypatch.setattr(distinct_targets, "BLOCK", size)
    return size


@pytest.mark.usefixtures("block")
@pytest.mark.parametrize("number", range(len(GIVEN) + 1))
def test_targets_are_as_added(number: int) -> None:
    found = DistinctTargets(GIVEN[:number])
    assert list(found) == GIVEN[:number]
    assert found == GIVEN[:number] and found == DistinctTargets(GIVEN[:number])
    assert (len(found), bool(found), found.repeated()) == (number, number > 0, 0)
    assert list(found) == GIVEN[:number], "targets must be readable more than once"


@pytest.mark.usefixtures("block")
@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("a1 b2 a3", "a1 b2"),
        ("a1 a2 a3 a4", "a1"),
        ("b1 a2 a3 b4 c5 a6", "b1 a2 c5"),
        ("a1:5 b2 a3:3 a4:9", "a1:3 b2"),
        ("a1 b2 a3:3 b4:7 b5:2", "a1:3 b2:2"),
        ("a1:3 a2", "a1:3"),
    ],
)
def test_of_a_repeated_name_the_first_stays_with_the_smallest_bucket(given: str, kept: str) -> None:
    found = DistinctTargets(map(target, given.split()))
    assert found == list(map(target, kept.split()))
    assert found.repeated() == len(given.split()) - len(kept.split())


def target(text: str) -> Target:
    """Return a target from text: a one-letter name, then `rank[:bucket]`."""
    rank, _, bucket = text[1:].partition(":")
    return Target(int(rank), text[0], int(bucket) if bucket else None)


def test_many_targets_are_those_of_a_dictionary(block: int) -> None:
    draw = random.Random(block)
    given = [
        Target(rank, f"{draw.randrange(300)}.example", draw.choice([None, 1_000, 5_000]))
        for rank in range(1, 1_000)
    ]
    expected: dict[str, Target] = {}
    for target in given:
        first = expected.setdefault(target.domain, target)
        buckets = [bucket for bucket in (first.rank_bucket, target.rank_bucket) if bucket is not None]
        expected[target.domain] = first._replace(rank_bucket=min(buckets, default=None))
    found = DistinctTargets(given)
    assert found == list(expected.values())
    assert max(table.num_rows for table in found.tables()) <= block


def test_other_targets_are_not_equal() -> None:
    found = DistinctTargets(GIVEN)
    assert found != GIVEN[:-1]
    assert found != [*GIVEN[:-1], Target(8, "x")]
    assert found != "targets"


@pytest.mark.parametrize("bad", [-1, 2**32])
def test_a_rank_out_of_range_is_refused(bad: int) -> None:
    with pytest.raises((OverflowError, pa.ArrowInvalid)):
        list(DistinctTargets([Target(bad, "a.example")]))


def test_files_are_in_the_folder_and_have_no_name(tmp_path: Path) -> None:
    before = set(Path("/proc/self/fd").iterdir())
    found = DistinctTargets(GIVEN, tmp_path)
    opened = set(Path("/proc/self/fd").iterdir()) - before
    places = [str(descriptor.readlink()) for descriptor in opened if descriptor.is_symlink()]
    assert places and all(place.startswith(f"{tmp_path}/") for place in places)
    assert found == GIVEN and not list(tmp_path.iterdir())
    with pytest.raises(OutputError, match="cannot write"):
        DistinctTargets(GIVEN, tmp_path / "none")
