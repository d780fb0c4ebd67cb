"""The measured delay equals the delay at the edge's interface, except for the link's lateness."""

from __future__ import annotations

from functools import cache
from socket import IPPROTO_UDP
from statistics import median
from typing import Any

import pytest

from lab.declared import internet
from lab.system.link_log import LinkLog, Passage
from tests.end_to_end import oracle
from tests.end_to_end.conftest import FinishedCampaign
from tests.end_to_end.stamps import ROUNDING_US, key_of

Row = dict[str, Any]
NET = internet.load()
# The tests must detect a link that delays every second packet this much longer than logged.
FAULT_US = 1000


@cache
def compared(
    finished: FinishedCampaign,
) -> list[tuple[Row, oracle.Reading, oracle.Reading, Passage, Passage]]:
    """Return instant ACKs: row, readings at vantage point and edge, link log lines of ACK and ServerHello."""
    found = []
    for row in finished.rows:
        if row["outcome"] == "iack" and row["attempts"] == 1:
            key = key_of(row)
            edge = finished.at_edges[key]
            flow = (row["ip"], row["src_ip"], IPPROTO_UDP, 443, row["src_port"])
            assert edge.ack_ns is not None and edge.sh_ns is not None, row
            ack = finished.link_log.first_since(flow, edge.ack_ns)
            hello = finished.link_log.first_since(flow, edge.sh_ns)
            found.append((row, finished.at_vantage[key], edge, ack, hello))
    assert len(found) > 1500
    return found


def test_the_link_holds_every_packet_as_long_as_declared(finished: FinishedCampaign) -> None:
    """The delay is exact, because the planned release is relative to the kernel's receive timestamp."""
    checked = 0
    for src, dst, held_ns in finished.link_log.delays():
        assert held_ns == one_way_ns(src, dst), (src, dst)
        checked += 1
    assert checked > 20_000


def one_way_ns(src: str, dst: str) -> int:
    """Return half the declared round-trip time between the hosts of two addresses."""
    return NET.rtt_us(HOST_OF[src], HOST_OF[dst]) * 500


HOST_OF = {ip: host.name for host in NET.hosts for ip in (host.v4, host.v6)} | {
    endpoint.ip: endpoint.host for endpoint in NET.endpoints
}


def test_answers_arrive_at_the_links_times(finished: FinishedCampaign) -> None:
    """Every receive timestamp is at least the planned release, and at most that plus the logged lateness."""
    for row, seen, _, ack, hello in compared(finished):
        assert seen.ack_ns is not None and seen.sh_ns is not None
        assert ack.holds(seen.ack_ns), (row, seen, ack)
        assert hello.holds(seen.sh_ns), (row, seen, hello)


def bound_us(edge: oracle.Reading, ack: Passage, hello: Passage) -> tuple[float, float]:
    """Return how much smaller and larger than at the edge the measured delay may be, in us.

    Additional time of the ACK (from the edge's capture to the link, and its late release) shortens the delay.
    Additional time of the ServerHello makes the delay longer.
    """
    assert edge.ack_ns is not None and edge.sh_ns is not None
    assert ack.late_ns is not None and hello.late_ns is not None
    return (
        (ack.arrived_ns - edge.ack_ns + ack.late_ns) / 1000 + ROUNDING_US,
        (hello.arrived_ns - edge.sh_ns + hello.late_ns) / 1000 + ROUNDING_US,
    )


def is_possible(delay_us: int, edge: oracle.Reading, ack: Passage, hello: Passage) -> bool:
    """Return whether a measured delay is consistent with the edge's."""
    smaller, larger = bound_us(edge, ack, hello)
    assert edge.ack_to_sh_us is not None
    return -smaller <= delay_us - edge.ack_to_sh_us <= larger


def test_delay_equals_the_capture_at_the_edge(finished: FinishedCampaign) -> None:
    """Checks every instant ACK, with bounds from the link's log of the same packets."""
    widths = []
    for row, _, edge, ack, hello in compared(finished):
        assert is_possible(row["ack_to_sh_us"], edge, ack, hello), (row, edge, ack, hello)
        widths.append(sum(bound_us(edge, ack, hello)))
    print(
        f"{len(widths)} delays checked, within {median(widths):.0f} us (median), {max(widths):.0f} us at most"
    )
    assert median(widths) < FAULT_US, "the bounds are too wide to detect a fault of this size"


@pytest.mark.parametrize("fault_us", [FAULT_US, -FAULT_US])
def test_a_wrong_delay_is_detected(finished: FinishedCampaign, fault_us: int) -> None:
    """The same checks must detect most delays and arrivals with an error of this size."""
    every = compared(finished)
    delays = sum(
        not is_possible(row["ack_to_sh_us"] + fault_us, edge, ack, hello)
        for row, _, edge, ack, hello in every
    )
    arrivals = sum(not hello.holds((seen.sh_ns or 0) + fault_us * 1000) for _, seen, _, _, hello in every)
    assert min(delays, arrivals) > len(every) / 2


def test_the_log_is_read_by_flow_and_time(finished: FinishedCampaign) -> None:
    """A packet that is in no capture has no log entry."""
    assert isinstance(finished.link_log, LinkLog)
    with pytest.raises(KeyError):
        finished.link_log.first_since(("198.18.0.11", "198.18.0.12", IPPROTO_UDP, 1, 2), 0)
