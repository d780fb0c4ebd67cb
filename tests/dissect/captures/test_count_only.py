"""Datagrams that are only counted contribute as much to a connection's row as fully read datagrams.

With packet records, every packet is read; without them, packets without keys are only counted after the first
answer is complete. The rows of connections must not depend on that.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.dissect.conftest import FIXTURES, dissect

CAPTURES = sorted([*FIXTURES.glob("*.pcap"), *(FIXTURES.parent / "quic").glob("*.pcap*")])


def connections(capture: Path, kinds: str, *limits: str) -> list[bytes]:
    done = dissect(capture, "--kind", kinds, *limits)
    assert done.returncode == 0, done.stderr.decode()
    return [line for line in done.stdout.splitlines() if line.startswith(b'{"kind":"quic_connection"')]


@pytest.mark.parametrize("limits", [(), ("--max-connections", "1")], ids=" ".join)
def test_rows_do_not_show_what_was_only_counted(limits: tuple[str, ...], tmp_path: Path) -> None:
    sealed = total = 0
    for capture in CAPTURES:
        # Away from its key log.
        alone = Path(shutil.copy(capture, tmp_path))
        counted = connections(alone, "quic_connection", *limits)
        assert counted and counted == connections(alone, "quic_connection,quic_packet", *limits), alone.name
        for row in map(json.loads, counted):
            sealed += row["undecrypted_packets"]
            total += row["packets_client"] + row["packets_server"]
    # Otherwise few packets were only counted.
    assert sealed > total / 2
