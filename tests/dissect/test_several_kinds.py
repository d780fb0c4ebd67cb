"""Several record kinds on one standard output: every line is complete, for any number of records."""

from __future__ import annotations

import json
from collections import Counter

import pyarrow as pa

from tests.dissect.conftest import FIXTURES, dissect

BULK = FIXTURES.parent / "pacing" / "tcp+tls-cubic-rep1.pcap.zst"
BROKEN_OFF = 3


def test_lines_of_several_kinds_do_not_cut_each_other() -> None:
    with pa.input_stream(str(BULK), compression="zstd") as bulk:
        begin = bulk.read(500_000)
    done = dissect("-", "--kind", "tcp_flow,pacing,tcp_packet", stdin=begin)
    assert done.returncode == BROKEN_OFF, done.stderr.decode()
    # The output far exceeds the buffer for a single kind.
    assert len(done.stdout) > 1 << 20
    found = Counter(json.loads(line)["kind"] for line in done.stdout.splitlines())
    assert found["tcp_flow"] == 1 and found["pacing"] == 1 and found["tcp_packet"] > 1000
