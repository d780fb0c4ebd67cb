"""The reader of the link's log: assignment of packets to flows."""

from __future__ import annotations

from pathlib import Path
from socket import IPPROTO_TCP, IPPROTO_UDP

from lab.system.link_log import Flow, LinkLog

SERVER, CLIENT = "198.18.9.2", "198.18.9.1"


def line(protocol: int, arrived_ns: int, length: int) -> str:
    """Return a log line of the link for a packet from the server's port 443 to the client's port 40000."""
    return f"{arrived_ns + 5},{SERVER},{CLIENT},{protocol},443,40000,{length},7,sent,{arrived_ns},0,\n"


def test_tcp_and_udp_of_equal_ports_are_two_flows(tmp_path: Path) -> None:
    """A client may use the same port first for one protocol and then for the other."""
    head = "release_ns,src,dst,protocol,sport,dport,ip_length,late_ns,fate,arrived_ns,wait_ns,dropped_by\n"
    log = tmp_path / "lateness.csv"
    log.write_text(head + line(IPPROTO_TCP, 10, 1500) + line(IPPROTO_UDP, 20, 1252))
    tcp: Flow = (SERVER, CLIENT, IPPROTO_TCP, 443, 40_000)
    udp: Flow = (SERVER, CLIENT, IPPROTO_UDP, 443, 40_000)
    read = LinkLog(log)
    lengths = {flow: [packet.ip_length for packet in packets] for flow, packets in read.flows()}
    assert lengths == {tcp: [1500], udp: [1252]}
    assert read.first_since(udp, 0).arrived_ns == 20
    assert read.first_since(tcp, 0).arrived_ns == 10
    assert sorted(read.delays()) == [(SERVER, CLIENT, 5)] * 2
