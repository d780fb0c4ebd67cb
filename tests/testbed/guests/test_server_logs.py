"""Servers that write qlog: their logs over loopback. test_trials has the log of the server quic-go."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from dissector.qlog import read
from firstflight.errors import InputError
from tests.testbed import loopback
from tests.waiting import until


@pytest.mark.parametrize("server", ["aioquic", "ngtcp2-gnutls"])
def test_a_server_writes_the_log_of_its_connection(tmp_path: Path, server: str) -> None:
    """`firstflight qlog-metrics` reads it: the first RTT sample on loopback, seen by the server."""
    logs = tmp_path / "logs"
    logs.mkdir()

    def rows() -> list[dict[str, Any]]:
        with contextlib.suppress(InputError):
            return [row for path in logs.iterdir() for row in read.metrics(path)]
        return []

    given = loopback.configuration(tmp_path, server)
    environment = {"QLOGDIR": str(logs)}
    found = loopback.answer(
        tmp_path,
        "quic-go",
        server,
        given,
        server_environment=environment,
        before_end=lambda: until(rows, "no log"),
    )
    assert found["end"] == "complete"
    assert len([*logs.iterdir()]) == 1 and rows()[0]["side"] == "server"
    assert rows()[0]["odcid"] is not None and rows()[0]["smoothed_rtt_us"] > 0
