"""Several record kinds on one standard output: every line is whole, however much there is of each."""

from __future__ import annotations

import json
from collections import Counter

from tests.dissect.conftest import FIXTURES, dissect


def test_lines_of_several_kinds_do_not_cut_each_other() -> None:
    kinds = ("quic_connection", "quic_packet", "pacing")
    captures = sorted(FIXTURES.glob("*.pcap"))
    done = dissect(*captures, "--kind", ",".join(kinds))
    assert done.returncode == 0, done.stderr.decode()
    # More than is held back of any kind before it is written.
    assert len(done.stdout) > 3 * (1 << 16)
    found = Counter(json.loads(line)["kind"] for line in done.stdout.splitlines())
    assert found["quic_connection"] == len(captures)
    assert set(found) == set(kinds) and found["quic_packet"] > 200
