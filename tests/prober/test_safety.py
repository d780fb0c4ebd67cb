"""Lists apply to the destination address of packets; limits hold; the order is random."""

from __future__ import annotations

import socket
import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from tests.prober.conftest import LOOPBACK, Probe, datagrams

Silent = Callable[[str], socket.socket]
TRIES = 5
FAULT = 0.02  # of a rate, as a share
QUICK = ("--timeout", "0.2", "--attempts", 1, "--linger-ms", 0)


def test_lists_win_over_permission(probe: Probe, silent: Silent, tmp_path: Path) -> None:
    sockets = {
        address: silent(address) for address in ("127.1.0.1", "127.1.0.2", "127.1.1.9", "127.1.2.3", "::1")
    }
    (tmp_path / "block").write_text("# ZMap's format\n127.1.0.2\n127.1.1.0/24 # a network\n")
    (tmp_path / "optout").write_text("example.org\n127.1.2.3/32\n")
    targets = [
        (address, f"n{i}.test", server.getsockname()[1])
        for i, (address, server) in enumerate(sockets.items())
    ]
    open_port = sockets["127.1.0.1"].getsockname()[1]
    for name in ("example.org", "www.EXAMPLE.org", "example.org.", "anexample.org"):
        targets.append(("127.1.0.1", name, open_port))
    done = probe(targets, *QUICK, "--blocklist", tmp_path / "block", "--optout", tmp_path / "optout")
    outcomes = {row["domain"]: row["outcome"] for row in done.rows}
    assert outcomes == {
        "n0.test": "timeout",
        "n1.test": "blocked",
        "n2.test": "blocked",
        "n3.test": "blocked",
        "n4.test": "timeout",
        "example.org": "blocked",
        "www.EXAMPLE.org": "blocked",
        "example.org.": "blocked",
        "anexample.org": "timeout",
    }
    for address in ("127.1.0.2", "127.1.1.9", "127.1.2.3"):
        assert datagrams(sockets[address]) == []
    assert len(datagrams(sockets["127.1.0.1"])) == 2
    blocked = done.row("n2.test")
    assert (blocked["attempts"], blocked["sent_at"], blocked["bytes_sent"]) == (0, None, 0)
    assert "block list" in blocked["detail"] and "opt-out" in done.row("example.org")["detail"]
    counts = done.summary
    assert counts["targets"] == counts["outcomes"]["blocked"] + counts["sent"] == 9


IPV4 = "127.0.0.1 10.1.2.3 169.254.1.1 224.0.0.1 255.255.255.255 198.18.0.1 0.0.0.0 192.0.2.1"
IPV6 = "::1 :: ::ffff:127.0.0.1 64:ff9b::7f00:1 fe80::1 ff02::1 fd00::1 2001:db8::1 2002:7f00:1::"


@pytest.mark.parametrize("address", [*IPV4.split(), *IPV6.split()])
def test_special_addresses_are_blocked_unless_allowed(probe: Probe, address: str) -> None:
    done = probe([(address, "a.test", 9)], "--contact", "me@example.org", allow=())
    row = done.row("a.test")
    assert (done.status, row["outcome"], row["ip"]) == (0, "blocked", address)
    assert "special-purpose" in row["detail"]


def test_mapped_addresses_do_not_slip_past_the_lists(probe: Probe, silent: Silent) -> None:
    server = silent("127.0.0.1")
    row = probe(
        [("::ffff:127.0.0.1", "a.test", server.getsockname()[1])], "--contact", "me", allow=LOOPBACK
    ).row("a.test")
    assert (row["outcome"], datagrams(server)) == ("blocked", [])


def gaps(times: list[int]) -> list[float]:
    ordered = sorted(times)
    return [(b - a) / 1e9 for a, b in pairwise(ordered)]


def test_limits_per_address_and_prefix_without_waiting_for_each_other(probe: Probe, silent: Silent) -> None:
    ports: dict[str, int] = {}
    for address in ("127.2.0.1", "127.2.0.2", "127.2.0.3", "127.2.1.1"):
        ports[address] = silent(address).getsockname()[1]
    targets = [("127.2.0.1", f"a{i}.test", ports["127.2.0.1"]) for i in range(6)]
    targets += [
        (address, f"b{i}.test", ports[address]) for address in ("127.2.0.2", "127.2.0.3") for i in range(5)
    ]
    targets += [("127.2.1.1", "other.test", ports["127.2.1.1"])]
    limits = ("--per-address-rate", "5", "--per-prefix-rate", "20")
    done = probe(targets, *QUICK, "--rate", 1000, limits=limits)
    by_address: dict[str, list[int]] = defaultdict(list)
    for row in done.rows:
        by_address[row["ip"]].append(row["sent_at"])
    # A limit applies to the times of the prober's decisions. The kernel's timestamp of a datagram is slightly
    # later. This makes one gap longer and the next one shorter, but does not change the median.
    for times in by_address.values():
        assert statistics.median(gaps(times) or [1]) > 0.19
    prefix = [
        time for address, times in by_address.items() if address.startswith("127.2.0.") for time in times
    ]
    assert statistics.median(gaps(prefix)) > 0.045
    busy = sorted(by_address["127.2.0.1"])
    last_of_others = max(by_address["127.2.0.2"] + by_address["127.2.0.3"])
    assert last_of_others < busy[-1], "the busy address does not delay its neighbours"
    assert by_address["127.2.1.1"][0] < busy[-1]


def test_the_order_is_random_and_given_by_the_seed(probe: Probe, silent: Silent) -> None:
    port = silent("127.0.0.1").getsockname()[1]
    targets = [("127.0.0.1", f"n{i:02}.test", port) for i in range(60)]

    def order(seed: int) -> list[str]:
        rows = probe(targets, *QUICK, "--rate", 1000, "--seed", seed).rows
        return [row["domain"] for row in sorted(rows, key=lambda row: row["sent_at"])]

    first = order(7)
    assert first == order(7) != order(8)
    assert first != sorted(first)


def test_rate_and_ceiling(probe: Probe, responder: int) -> None:
    rate, seconds = 400, 6
    targets = [(f"127.3.{i // 200}.{i % 200 + 1}", f"n{i}.test", responder) for i in range(rate * seconds)]
    drifts = []
    for _ in range(TRIES):
        done = probe(targets, "--rate", rate)
        times = sorted(row["sent_at"] for row in done.rows)
        assert {row["outcome"] for row in done.rows} == {"iack"}
        # The prober decides on whole batches. A batch with late timestamps also counts in the next window.
        batch = done.summary["batch"]
        assert _most_in_a_second(times) <= rate + 2 * batch
        assert done.summary["max_new_per_second"] <= rate + batch
        assert done.summary["max_datagrams_per_second"] < 2 * rate + batch
        drifts.append(_drift(times, rate))
        # The same times, stretched or compressed by the fault, must be detected.
        if not _is_wrong(times, rate):
            assert _is_wrong([times[0] + (at - times[0]) * (1 + FAULT) for at in times], rate)
            assert _is_wrong([times[0] + (at - times[0]) * (1 - FAULT) for at in times], rate)
            return
    # A machine that stalls the prober for seconds can spoil single tries.
    raise AssertionError(f"the rate is wrong by {drifts}")


def _is_wrong(times: Sequence[float], rate: float) -> bool:
    """Return whether the rate of probes is wrong by FAULT, with FAULT / 2 as tolerance for the machine."""
    return abs(_drift(times, rate)) >= FAULT / 2


def _drift(times: Sequence[float], rate: float) -> float:
    """Return by how much the rate is too low, as a share, measured from the first to the last third.

    A stall of the machine delays probes, and the delayed probes follow at a higher rate. So each third has
    some probes that are almost on schedule. The function compares the least late probe of each.
    """
    late_s = [(at - times[0]) / 1e9 - number / rate for number, at in enumerate(times)]
    third = len(times) // 3
    return (min(late_s[2 * third :]) - min(late_s[:third])) / (2 * third / rate)


def _most_in_a_second(times: list[int]) -> int:
    most, first = 0, 0
    for i, now in enumerate(times):
        while times[first] <= now - 1_000_000_000:
            first += 1
        most = max(most, i + 1 - first)
    return most


def test_second_connections_stay_under_the_ceiling(probe: Probe, silent: Silent) -> None:
    port = silent("127.0.0.1").getsockname()[1]
    targets = [("127.0.0.1", f"n{i}.test", port) for i in range(300)]
    done = probe(targets, "--rate", 100, "--timeout", "0.5", "--linger-ms", 0)
    assert (done.summary["retransmissions"], done.summary["outcomes"]["timeout"]) == (300, 300)
    assert done.summary["max_datagrams_per_second"] < 200 + done.summary["batch"]
