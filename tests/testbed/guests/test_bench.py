"""The testbed's benches on real guests: the cost of a series, and a cell compared with real time."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.testbeds import ack_cost, real_time
from bench.testbeds import testbed as bench
from testbed.experiment import experiment
from testbed.trials.block import TrialBlock
from tests.testbed.experiments import find

NAME = "quiche-quiche-iack-9ms"


def test_the_cost_of_a_series_and_what_its_clients_wait(tmp_path: Path) -> None:
    """The delay of the certificate is 200 ms of the guest's time."""
    cost = bench._run(tmp_path, [NAME], 2)
    assert (cost.cells, cost.repetitions) == (1, 2)
    assert cost.waited_s == pytest.approx(2 * 0.223, abs=0.01)
    alone = bench._run(tmp_path, [NAME], 2, resume=True)
    assert 0 < alone.cpu_s < cost.cpu_s
    assert alone.waited_s == cost.waited_s


def test_real_time_takes_what_simulated_time_does_and_computing() -> None:
    (cell,) = experiment.chosen(find("iack-ttfb"), (NAME,))
    found = real_time.compared(TrialBlock("iack-ttfb", cell, 1, 1))
    assert found.simulated.failed == found.real.failed == 0
    assert found.simulated.median_ms == pytest.approx(223, abs=1)
    assert found.more_ms is not None and found.more_ms > 0
    assert found.late_p99_us is not None and found.late_max_us is not None
    assert 0 < found.late_p99_us <= found.late_max_us


def test_transfers_with_both_ratios_cost_packets_and_time() -> None:
    """A round over a real path. How many ACKs a client sends in real time depends on the machine."""
    transfers = ack_cost.measure(1, [50], 300_000)
    assert [transfer["ratio"] for transfer in transfers] == [2, 10, 10, 2]
    for transfer in transfers:
        assert transfer["received"] > 250 and transfer["sent"] > 0
        assert transfer["client_ns"] > 0 and transfer["server_ns"] > 0
    assert ack_cost.costs(transfers)[0].received > 250
