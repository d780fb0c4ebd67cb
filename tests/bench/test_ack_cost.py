"""Calculations of `python -m bench ack_cost`, with invented transfers."""

from __future__ import annotations

from typing import Any

import pytest

from bench.testbeds import ack_cost
from reports.numbers.spread import Spread


def transfer(round_: int, ratio: int, sent: int, client_ms: float, **more: Any) -> dict[str, Any]:
    made = {"rate_mbit": 20.0, "round": round_, "ratio": ratio, "received": 4000, "sent": sent}
    costs = {"client_ns": round(client_ms * 1e6), "server_ns": 10_000_000}
    return {**made, **costs, "end": "complete", "detail": None, "client_version": "quinn/1.2", **more}


ROUNDS = [
    *(transfer(1, 2, 2000, 30), transfer(1, 10, 400, 20), transfer(1, 10, 400, 10)),
    *(transfer(1, 2, 2000, 30), transfer(2, 2, 2000, 60), transfer(2, 10, 500, 25)),
    *(transfer(2, 10, 500, 25), transfer(2, 2, 2000, 40)),
]


def test_a_round_compares_transfers_of_both_ratios() -> None:
    """Rounds of 60 and 30 ms, and of 100 and 50 ms: twice the time; the noise is 1, 2, 1.5 and 1."""
    packets, client, server = ack_cost.costs(ROUNDS)
    assert (packets.many, packets.few, packets.received, packets.each_us) == (2000, 400 + 50, 4000, None)
    assert packets.times == Spread(4, 4.25, 4.5, 4.75, 5)
    assert (client.many, client.few) == (35, 22.5)
    assert client.times == Spread(2, 2, 2, 2, 2)
    assert client.noise == Spread(1, 1, 1.25, 1.625, 2)
    # 30 ms for 3,200 packets, and 50 ms for 3,000.
    assert client.each_us == pytest.approx((30_000 / 3200 + 50_000 / 3000) / 2)
    assert (server.times.median, server.noise.median, server.each_us) == (1, 1, 0)
    assert str(client) == (
        "20 Mbit/s, CPU time of the client, ms: 35.0 with ratio 2, 22.5 with 10: 2.00 (quartiles 2.00 to "
        "2.00) times; same ratio 1.25 (quartiles 1.00 to 1.62); 13.0 us for each additional packet"
    )


def test_each_rate_has_its_lines() -> None:
    other = [{**line, "rate_mbit": 100.0} for line in ROUNDS]
    assert [line.rate_mbit for line in ack_cost.costs([*ROUNDS, *other])] == [20] * 3 + [100] * 3
    with pytest.raises(ValueError, match="no round at 20 Mbit/s has two transfers"):
        ack_cost.costs(ROUNDS[:2])


def test_arguments_that_measure_nothing_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--rounds", "0"], ["--rates", "20,0"], ["--body-bytes", "-1"]):
        with pytest.raises(SystemExit):
            ack_cost.main(arguments)
        assert "--rounds, --rates and --body-bytes are positive" in capsys.readouterr().err
