"""Sweeps of Initial sizes, and the limits of listening, from the command line."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.prober.conftest import Probe, datagrams

Silent = Callable[[str], socket.socket]


def test_each_target_is_probed_once_with_each_size(probe: Probe, responder: int) -> None:
    targets = [(f"127.9.{n}.1", f"n{n}.test", responder) for n in range(20)]
    done = probe([*targets, targets[0]], "--initial-size", "1200-1472/68,1252", "--rate", 2000)
    sizes = [1200, 1252, 1268, 1336, 1404, 1472]
    found = sorted((row["domain"], row["initial_size"]) for row in done.rows)
    assert found == sorted((domain, size) for _, domain, _ in [*targets, targets[0]] for size in sizes)
    assert {row["outcome"] for row in done.rows} == {"iack"}
    assert all(row["bytes_sent"] == row["initial_size"] for row in done.rows)
    assert len({row["client_cid"] for row in done.rows}) == len(done.rows)
    summary = done.summary
    assert (summary["targets"], summary["sent"], summary["initial_sizes"]) == (126, 126, sizes)
    assert (summary["initial_size_ipv4"], summary["closes"]) == (None, 126)


def test_limits_hold_for_all_sizes_together(probe: Probe, silent: Silent) -> None:
    """Three probes of an address at four a second take two intervals, independent of the sizes."""
    server = silent("127.0.0.1")
    done = probe(
        [("127.0.0.1", "a.test", server.getsockname()[1])],
        *("--initial-size", "1200,1300,1400", "--timeout", "0.2", "--attempts", 2, "--linger-ms", 0),
        limits=("--per-address-rate", "4", "--per-prefix-rate", "0"),
    )
    times = sorted(row["sent_at"] for row in done.rows)
    assert len(times) == 3 and done.summary["retransmissions"] == 3
    received = datagrams(server)
    assert sorted(map(len, received)) == [1200, 1200, 1300, 1300, 1400, 1400]
    assert len({datagram[15:23] for datagram in received}) == 6, "every connection must have a different ID"


def test_a_target_that_is_sent_nothing_has_its_size(probe: Probe, tmp_path: Path) -> None:
    blocked = tmp_path / "blocked.conf"
    blocked.write_text("127.0.0.9\n")
    done = probe([("127.0.0.9", "a.test", 443)], "--initial-size", "1200,1300", "--blocklist", blocked)
    assert sorted((row["outcome"], row["initial_size"]) for row in done.rows) == [
        ("blocked", 1200),
        ("blocked", 1300),
    ]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--initial-size", "1200-1472"), "a range is FIRST-LAST/STEP"),
        (("--initial-size", "1200,1300", "--segments", "SEGMENTS"), "set probe.initial_sizes of a campaign"),
        (("--listen", "5"), "these are 1001: draw a sample"),
        (("--listen", "61"), "'61' for '--listen <SECONDS>'"),
    ],
)
def test_impossible_options_are_one_sentence(
    probe: Probe, silent: Silent, tmp_path: Path, options: tuple[str, ...], sentence: str
) -> None:
    server = silent("127.0.0.1")
    given = [str(tmp_path / "segments") if option == "SEGMENTS" else option for option in options]
    done = probe([("127.0.0.1", "a.test", server.getsockname()[1])] * 1001, *given)
    assert (done.status, done.rows) == (2, [])
    assert sentence in done.messages and done.messages.count("\n") == 1, done.messages
    assert datagrams(server) == []


def test_a_dry_run_prints_the_number_of_probes(probe: Probe) -> None:
    done = probe([("127.0.0.1", "a.test", 443)], "--initial-size", "1200,1300", "--dry-run")
    assert done.status == 0 and "each target has 2 probes" in done.messages
