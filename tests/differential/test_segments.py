"""Every field that tshark and the dissector both know of a TCP segment, in captures by chance and by real stacks."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.differential import compare
from tests.differential.compare import Comparison
from tests.differential.segments import in_words_of_tshark, segments
from tests.differential.test_fields import exceptions, is_excepted
from tests.dissect import tcp_stories
from tests.dissect.conftest import FIXTURES, rows

REAL = FIXTURES.parent / "tcp"


@pytest.fixture(scope="module")
def comparisons(tmp_path_factory: pytest.TempPathFactory) -> list[Comparison]:
    stories = tcp_stories.write(tmp_path_factory.mktemp("tcp") / "stories.pcap", 11, 150)
    captures = [stories, *sorted(REAL.glob("*.pcap*"))]
    assert len(captures) > 1
    return [compared(capture) for capture in captures]


def compared(capture: Path) -> Comparison:
    """Our rows of a capture against tshark's fields; both know the same frames."""
    comparison = Comparison(capture)
    ours = {row["frame_number"]: in_words_of_tshark(row) for row in rows(capture, "--kind", "tcp_packet")}
    theirs = {int(found["frame.number"][0]): found for found in segments(capture)}
    assert ours
    assert set(ours) == set(theirs), capture
    for number, row in ours.items():
        comparison.segment(row, theirs[number])
    return comparison


def test_all_agree(comparisons: list[Comparison]) -> None:
    listed = exceptions()
    unexplained = [
        difference
        for comparison in comparisons
        for difference in comparison.differences
        if not is_excepted(difference, listed)
    ]
    assert not unexplained, f"{len(unexplained)}: " + "\n".join(str(one) for one in unexplained[:20])


def test_every_field_was_compared(comparisons: list[Comparison]) -> None:
    seen: Counter[str] = Counter()
    for comparison in comparisons:
        seen += comparison.compared
    assert {one.name for one in compare.fields("tcp")} - set(seen) == set()
