"""Trials with a Retry, and with requests in 0-RTT packets."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.measures.rtt_use import RttUsed
from testbed.trials import series
from testbed.trials.captures import captured_packets
from tests import drawn
from tests.testbed.experiments import find, lines
from tests.testbed.guests.test_trials import run


@drawn.parametrize("client, server", [("aioquic", "aioquic"), ("quinn", "quiche"), ("quinn", "picoquic")], 1)
def test_an_instant_ack_follows_a_retry(tmp_path: Path, client: str, server: str) -> None:
    file = tmp_path / "retry.toml"
    cell = f'client = "{client}"\nserver = "{server}"\nanswering = "iack"\nhandshake = "retry"\n'
    file.write_text(f'title = "x"\n[held]\ncertificate_delay_ms = 20\n[[cell]]\n{cell}')
    run(tmp_path, f"--scenario={file}", "--seeds", "1")
    (row,) = series.rows(tmp_path, "retry")
    assert (row["outcome"], row["handshake"], row["first_answer"]) == ("done", "retry", "iack")
    (packets,) = captured_packets.connections(tmp_path / "retry", [row])
    assert [packet["type"] for packet in packets].count("retry") == 1
    # The sample starts at the second Initial.
    assert row["rtt_first_us"] == pytest.approx(9000, abs=50)
    assert row["first_ack_us"] == pytest.approx(18_000, abs=100)


@drawn.parametrize("client", ["aioquic", "picoquic"], 1)
def test_an_early_request_is_answered_with_the_server_hello(tmp_path: Path, client: str) -> None:
    """In each repetition: repetition 0 has the first ticket."""
    run(tmp_path, "iack-handshakes", "--seeds", "2", "--cells", f"{client}-aioquic-iack-9ms-resumed")
    rows = [row for row in series.rows(tmp_path, "iack-handshakes") if row["client"] == client]
    for row in rows:
        assert (row["outcome"], row["handshake"], row["first_answer"]) == ("done", "resumed", "iack")
        assert row["first_stream_us"] - row["server_hello_us"] < 100
    connections = captured_packets.connections(tmp_path / "iack-handshakes", rows)
    assert [any(packet["type"] == "0rtt" for packet in packets) for packets in connections] == [True, True]


@drawn.parametrize("client, uses_retry", [("aioquic", False), ("quic-go", True), ("quinn", False)], 1)
def test_a_probe_after_a_retry_shows_whether_it_is_a_sample(
    tmp_path: Path, client: str, uses_retry: bool
) -> None:
    run(tmp_path, "iack-estimate", "--seeds", "1", "--cells", f"{client}-aioquic-wfc-9ms-retry")
    rows = [row for row in series.rows(tmp_path, "iack-estimate") if row["client"] == client]
    (line,) = lines(find("iack-estimate"), rows, tmp_path / "iack-estimate")
    assert isinstance(line, RttUsed)
    assert (line.trials, line.uses_retry, line.subtracts) == (1, uses_retry, None)
    assert line.retry_rtt_ms == pytest.approx(9, abs=0.1)
