"""A trial by the host's clock: it needs tbf and nftables of the host's kernel."""

from __future__ import annotations

import os
from pathlib import Path

from testbed.trials import real_time
from testbed.trials.block import TrialBlock
from tests.testbed.trials.test_real import CELL


def test_a_trial_in_real_time_has_the_path_s_delay_and_drops(tmp_path: Path) -> None:
    found = real_time.run(TrialBlock("x", CELL, 1, 1), tmp_path)
    (row,) = found.rows
    assert (row["outcome"], row["detail"], row["dropped"]) == ("done", None, 1)
    # A busy machine can only delay it. The capture's clock has a resolution of 1 us.
    assert row["rtt_min_us"] >= 39_999
    assert row["first_stream_us"] > 79_998
    assert (row["seed"], row["kernel"]) == (None, f"{os.uname().release}, in real time")
    assert len(found.late_ns) >= row["datagrams_client"] + row["datagrams_server"]
    assert {"path.pcap", "path.keys", "lateness.csv"} <= {file.name for file in tmp_path.iterdir()}
    assert not (tmp_path / "trials").exists()
