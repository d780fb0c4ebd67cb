"""Compares every field in a TCP segment that tshark and the dissector both report."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.differential import compare
from tests.differential.compare import Comparison
from tests.differential.exceptions import check_needed, unexplained
from tests.differential.segments import in_words_of_tshark, segments
from tests.dissect.conftest import FIXTURES, rows
from tests.dissect.tcp import tcp_stories

REAL = FIXTURES.parent / "tcp"


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Random TCP conversations, and conversations of real stacks."""
    stories = tcp_stories.write(tmp_path_factory.mktemp("tcp") / "stories.pcap", 11, 150)
    real = sorted(REAL.glob("*.pcap"))
    assert real
    return [stories, *real]


@pytest.fixture(scope="module")
def comparisons(captures: list[Path]) -> list[Comparison]:
    return [compared(capture) for capture in captures]


def compared(capture: Path) -> Comparison:
    """Compare the dissector's rows with tshark's fields. Both must have the same frames."""
    comparison = Comparison(capture)
    ours = {row["frame_number"]: in_words_of_tshark(row) for row in rows(capture, "--kind", "tcp_packet")}
    theirs = {int(found["frame.number"][0]): found for found in segments(capture)}
    assert ours
    assert set(ours) == set(theirs), capture
    for number, row in ours.items():
        comparison.segment(row, theirs[number])
    return comparison


def test_all_agree(comparisons: list[Comparison]) -> None:
    assert unexplained(comparisons, "tcp") == ""


def test_every_exception_is_needed(comparisons: list[Comparison], captures: list[Path]) -> None:
    check_needed(comparisons, captures, "tcp")


def test_every_field_was_compared(comparisons: list[Comparison]) -> None:
    total: Counter[str] = Counter()
    for comparison in comparisons:
        total += comparison.compared
    assert {field.name for field in compare.fields("tcp")} - set(total) == set()
