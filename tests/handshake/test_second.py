"""The second connection: tickets, 0-RTT and tokens, under the limits of the first."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from lab.declared.model import HttpAnswer
from tests.handshake.conftest import ENDS_S, HOST, SILENT_S, EngineOutput, Http3, connect
from tests.lab_servers.running import endpoint, running

SECOND = ("--second", "--timeout", ENDS_S)


@pytest.fixture(scope="module")
def done(http3: Http3, tmp_path_factory: pytest.TempPathFactory) -> EngineOutput:
    def run(timeout_s: float, *modes: str) -> EngineOutput:
        targets = [(HOST, f"{mode}.http3.test", http3.port) for mode in modes]
        return connect(tmp_path_factory.mktemp("second"), targets, "--second", "--timeout", timeout_s)

    answered, silent = run(ENDS_S, "plain", "redirect", "close"), run(SILENT_S, "silent")
    return replace(answered, rows=answered.rows + silent.rows)


RESUMED = [("plain", "response", 200), ("redirect", "response", 301), ("silent", "no_response", None)]
TRIES = 3


@pytest.mark.parametrize(("mode", "http", "status"), RESUMED)
def test_a_session_is_resumed_and_the_request_taken_early(
    done: EngineOutput, mode: str, http: str, status: int | None
) -> None:
    row = done.row(f"{mode}.http3.test")
    assert (row["outcome"], row["tickets"], row["early_data"]) == ("done", 1, True), row
    assert (row["second_outcome"], row["second_http"], row["second_status"]) == ("done", http, status)
    assert (row["second_ticket"], row["second_resumed"], row["second_early_data"]) == (True, True, "accepted")
    assert (row["second_token"], row["second_token_honoured"], row["second_retry"]) == (False, None, False)
    assert row["second_sent_at"] > row["sent_at"] and row["second_detail"] is None
    assert 0 < row["second_ack_us"] <= row["second_handshake_us"]
    # The response to 0-RTT arrives before the confirmation. The engine waits another 50 ms for that.
    confirmed_us = row["second_confirmed_us"]
    assert (confirmed_us is None and http == "response") or confirmed_us >= row["second_handshake_us"]


def test_the_second_connection_has_no_certificate(done: EngineOutput) -> None:
    """One of the connections must show it: in the others a busy server may have sent its flight twice."""
    rows = [done.row(f"{mode}.http3.test") for mode, *_ in RESUMED]
    assert any(row["second_bytes_received"] < row["bytes_received"] for row in rows), rows


@pytest.mark.usefixtures("done")
def test_the_server_received_two_requests(http3: Http3) -> None:
    labels = [request[":authority"].split(".")[0] for request in http3.asked()]
    assert labels.count("plain") == 2 and labels.count("redirect") == 2
    assert {request[":method"] for request in http3.asked()} == {"HEAD"}


def test_without_the_option_there_is_no_second_connection(http3: Http3, tmp_path: Path) -> None:
    (row,) = connect(tmp_path, [(HOST, "plain.http3.test", http3.port)]).rows
    assert row["outcome"] == "done" and row["tickets"] == 1
    assert {value for name, value in row.items() if name.startswith("second_")} == {None}


def test_an_incomplete_handshake_has_no_second_connection(http3: Http3, tmp_path: Path) -> None:
    (row,) = connect(tmp_path, [(HOST, "plain.http3.test", http3.port)], *SECOND, "--alpn", "other").rows
    assert (row["outcome"], row["second_outcome"]) == ("handshake_failed", None)


def test_both_connections_keep_the_limit_of_the_address(http3: Http3, tmp_path: Path) -> None:
    started_ns = time.time_ns()
    targets = [(HOST, f"n{number}.http3.test", http3.port) for number in range(4)]
    limits = ("--per-address-rate", "5", "--per-prefix-rate", "0")
    done = connect(tmp_path, targets, *SECOND, limits=limits)
    times = sorted(row[name] for row in done.rows for name in ("sent_at", "second_sent_at"))
    # Each leaves at its time or later: the k-th not before k intervals have passed.
    assert len(times) == 8 and all(at - started_ns >= k * 200_000_000 for k, at in enumerate(times))


@pytest.mark.parametrize("stack", ["quic-go", "quiche"])
def test_other_stacks_accept_their_tickets_and_tokens(tmp_path: Path, stack: str) -> None:
    answers = replace(endpoint(stack, "wait", None), http=HttpAnswer(200))
    with running(tmp_path, stack, [answers]) as server:
        for _ in range(TRIES):
            (row,) = connect(tmp_path, [(HOST, "wait.small.test", server.port)], *SECOND).rows
            assert (row["outcome"], row["second_outcome"]) == ("done", "done"), row
            assert row["second_ticket"] == (row["tickets"] > 0), row
            assert row["second_token"] == (row["tokens"] > 0), row
            assert row["second_retry"] is False
            # A resumed one has no certificate, but a busy server may send its flight twice.
            if not row["second_resumed"] or row["second_bytes_received"] < row["bytes_received"]:
                return
    raise AssertionError(f"a resumed connection brought as much as the first in each of {TRIES} tries: {row}")
