"""Compares every field that tshark and the dissector both report, per packet, in every sample capture."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from pathlib import Path

import pytest

from tests.differential import compare, scenarios
from tests.differential.all_frames import make_all_frames
from tests.differential.compare import Comparison
from tests.differential.exceptions import MOST, check_needed, exceptions, unexplained
from tests.differential.oracle import datagrams
from tests.dissect.conftest import FIXTURES, rows

RECORDED = FIXTURES.parent / "quic"

LEAST_FIELDS = 80


@pytest.fixture(scope="session")
def captures(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The samples and the generated captures, each with a key log in the same folder."""
    folder = tmp_path_factory.mktemp("scenarios")
    made = [scenarios.make(name, folder) for name in scenarios.SCENARIOS]
    recorded = [*sorted(FIXTURES.glob("*.pcap")), *sorted(RECORDED.glob("*.pcap"))]
    return [*recorded, *made, make_all_frames(folder / "all_frames.pcap")]


@pytest.fixture(scope="session")
def comparisons(captures: list[Path]) -> list[Comparison]:
    return [compared(capture) for capture in captures]


def compared(capture: Path) -> Comparison:
    """Compare the dissector's rows for a capture with tshark's fields."""
    comparison = Comparison(capture)
    keys = capture.with_suffix(".keys")
    found = rows(capture, "--kind", "quic_packet")
    by_frame = {number: list(group) for number, group in groupby(found, key=lambda row: row["frame_number"])}
    for theirs in datagrams(capture, keys if keys.exists() else None):
        ours = by_frame.get(int(theirs.fields["frame.number"][0]))
        # A datagram in a connection without its start is counted, but has no rows.
        if ours is not None and ours[0]["type"] != "icmp":
            comparison.datagram(ours, theirs)
    return comparison


def test_all_agree(comparisons: list[Comparison]) -> None:
    assert unexplained(comparisons, "quic") == ""


def test_enough_fields_were_compared(comparisons: list[Comparison]) -> None:
    """Each listed field occurs in some capture, so that no comparison is empty."""
    total: Counter[str] = Counter()
    for comparison in comparisons:
        total += comparison.compared
    listed = {field.name for scope in ("datagram", "packet", "frame") for field in compare.fields(scope)}
    assert listed - set(total) == set()
    assert len(listed) >= LEAST_FIELDS


def test_packets_decrypted_by_tshark_are_decrypted(comparisons: list[Comparison]) -> None:
    """Decrypted packets other than Initials are compared too."""
    missed = {
        comparison.capture: dict(+comparison.only_theirs)
        for comparison in comparisons
        if +comparison.only_theirs
    }
    assert missed == {}
    assert sum(comparison.compared["quic.key_phase"] for comparison in comparisons) > 300


def test_exceptions_are_few_and_explained() -> None:
    listed = exceptions()
    assert len(listed) <= MOST
    for exception in listed:
        keys = set(exception) - {"tshark"}
        assert {"scope", "capture", "frames", "field", "bytes", "reason"} == keys, exception
        assert exception["scope"] in ("quic", "tcp")


def test_every_exception_is_needed(comparisons: list[Comparison], captures: list[Path]) -> None:
    check_needed(comparisons, captures, "quic")
