"""Datagrams that are only counted add the same to a connection's row as those that are read packet by packet.

When packets are asked for as records, every one is read; without them, those that no key opens are counted
once the first answer is over. The rows of connections must not show the difference.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.dissect.conftest import FIXTURES, Row, rows

CAPTURES = sorted([*FIXTURES.glob("*.pcap"), *(FIXTURES.parent / "quic").glob("*.pcap*")])


def connections(found: list[Row]) -> list[Row]:
    return [row for row in found if row["kind"] == "quic_connection"]


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_rows_do_not_show_what_was_only_counted(capture: Path, tmp_path: Path) -> None:
    # Away from its key log.
    alone = Path(shutil.copy(capture, tmp_path))
    for limits in ([], ["--max-connections", "1"]):
        counted = rows(alone, "--kind", "quic_connection", *limits)
        read = rows(alone, "--kind", "quic_connection,quic_packet", *limits)
        assert counted and counted == connections(read)


def test_most_datagrams_of_a_handshake_are_sealed() -> None:
    """Else the test above compares nothing."""
    sealed = total = 0
    for capture in CAPTURES[:4]:
        for row in connections(rows("-", "--kind", "quic_connection", stdin=capture.read_bytes())):
            sealed += row["undecrypted_packets"]
            total += row["packets_client"] + row["packets_server"]
    assert sealed > total / 2
