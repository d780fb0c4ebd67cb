"""The path between a client and a server: commands for ip, tc and nft inside a guest.

Three network namespaces form a chain. The device at each end applies the rate and the queue. Each device of
the middle namespace, the link, applies the delay towards its end, so datagrams are dropped where they would
leave the link. With a qdisc other than pfifo, the server's device has only this qdisc. Delay, rate and queue
then follow in this order at the client's end of the link, as in paper 001.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from testbed.experiment.cell import Cell
from testbed.trials.network import losses, reordering

CLIENT, LINK, SERVER = "client", "link", "server"
"""The namespaces."""
CLIENT_IP, SERVER_IP = "10.91.1.2", "10.91.2.2"
GATEWAY_IP = "10.91.1.1"
"""The client's gateway: an address of LINK."""
PORT = 443
DEVICE = "path0"
"""The device of each end."""
NETWORK = "10.91.0.0/16"
"""The path's addresses: private ones, not the lab's, which clients may only contact in the lab."""
TAP = f"to_{SERVER}"
"""The link's device that receives the server's datagrams, before any shaping."""
BUFFER_BYTES = 50 << 20
"""Socket buffers if a response has a body, as in paper 001. Datagrams in the path's queue count against the
sender's buffer, and a server that does not block loses the excess before any queue of the cell."""
DROPS = "drops"
"""The nft table in LINK that counts and drops datagrams in a trial."""
REORDERED = "reordered"
"""The nft table that also counts them, and marks the datagrams in a trial to delay longer."""

_ENDS = ((CLIENT, "10.91.1", "1"), (SERVER, "10.91.2", "2"))
_ETHERNET_BYTES = 14
_CLASSES = 3
"""The handle of the qdisc with the longer delay as its second class."""
_LARGEST_FRAME = 1514
# Longer than the delay-bandwidth product of any cell, so only the queue at the sender drops.
_DELAYED_PACKETS = 1_000_000
# Settings of paper 001. etf dequeues a datagram `delta` ns before its launch time.
_OF_SERVER = {
    "none": "",
    "fq": "fq flow_limit 10000",
    "fq_codel": "fq_codel",
    "etf": "etf clockid CLOCK_TAI delta 200000",
}


def macs(number: str) -> tuple[str, str]:
    """Return the MAC addresses of an end's device and its peer in LINK; `number` as in _ENDS."""
    return f"02:00:00:00:0{number}:02", f"02:00:00:00:0{number}:01"


def commands(cell: Cell, *, delayed: bool = True) -> list[list[str]]:
    """Return the commands that create a cell's path, in order; each is an argument list.

    MAC addresses and neighbours are fixed, so runs do not differ in them and send no ARP. If `delayed` is
    false and the qdisc is pfifo, the path has no delay; testbed/trials/network/wire.py adds it.
    """
    lines = [f"ip netns add {name}" for name in (CLIENT, LINK, SERVER)]
    for name, network, number in _ENDS:
        near, far = macs(number)
        peer = f"peer to_{name} netns {LINK} address {far}"
        offloads = "tx off tso off gso off gro off tx-udp-segmentation off"
        lines += [
            f"ip -n {name} link add {DEVICE} address {near} type veth {peer}",
            f"ip -n {name} addr add {network}.2/24 dev {DEVICE}",
            f"ip -n {LINK} addr add {network}.1/24 dev to_{name}",
            f"ip -n {name} link set lo up",
            # Without segmentation and checksum offload, each datagram is a separate packet in the capture.
            f"ip netns exec {name} ethtool -K {DEVICE} {offloads}",
            f"ip -n {name} link set {DEVICE} up",
            f"ip -n {LINK} link set to_{name} up",
            f"ip -n {name} neigh add {network}.1 lladdr {far} dev {DEVICE}",
            f"ip -n {LINK} neigh add {network}.2 lladdr {near} dev to_{name}",
            f"ip -n {name} route add default via {network}.1",
            *_queues(cell, name, delayed=delayed),
        ]
    lines.append(f"ip netns exec {LINK} sysctl -qw net.ipv4.ip_forward=1")
    if cell.body_bytes:
        lines.append(f"sysctl -qw net.core.wmem_default={BUFFER_BYTES} net.core.rmem_default={BUFFER_BYTES}")
    return [line.split() for line in lines]


def _queues(cell: Cell, end: str, *, delayed: bool) -> list[str]:
    """Return the commands for an end's outgoing and incoming traffic."""
    near, link = f"tc -n {end} qdisc add dev {DEVICE}", f"tc -n {LINK} qdisc add dev to_{end}"
    if cell.qdisc == "pfifo" or end == CLIENT:
        packets = cell.up_queue_packets if end == CLIENT else cell.down_queue_packets
        length = f"bfifo limit {cell.queue_bytes}" if packets is None else f"pfifo limit {packets}"
        sends = [f"{near} root handle 1: tbf {_rate(cell, end)}", f"{near} parent 1:1 {length}"]
    else:
        kind = _OF_SERVER[cell.qdisc]
        sends = [f"{near} root {kind}"] if kind else []
    if cell.qdisc == "pfifo" or end == SERVER:
        return [*sends, *(_delays(cell, end, link, "root", _DELAYED_PACKETS) if delayed else [])]
    return [
        *sends,
        f"{link} root handle 1: tbf {_rate(cell, SERVER)}",
        *_delays(cell, end, link, "parent 1:1", cell.queue_packets),
    ]


def _delays(cell: Cell, end: str, link: str, parent: str, packets: int) -> list[str]:
    """Return the commands for the delay towards an end: one delay, or two if some datagrams arrive later."""
    delay_ms, loss_percent = (
        (cell.down_delay_ms, cell.netem_loss_to_client_percent)
        if end == CLIENT
        else (cell.up_delay_ms, cell.netem_loss_to_server_percent)
    )
    delays_ms = [delay_ms]
    if reordering.reorders(cell, "to_client" if end == CLIENT else "to_server"):
        delays_ms.append(delay_ms + (cell.reorder_ms or 0))
    loss = f" loss random {loss_percent:.10g}%" if loss_percent else ""
    netems = [f"netem delay {delay_ms * 1000:.0f}us{loss} limit {packets}" for delay_ms in delays_ms]
    if len(netems) == 1:
        return [f"{link} {parent} {netems[0]}"]
    # Datagrams without a class from the table REORDERED use the first class.
    return [
        f"{link} {parent} handle {_CLASSES}: prio bands 2 priomap {' '.join('0' * 16)}",
        *(f"{link} parent {_CLASSES}:{number} {netem}" for number, netem in enumerate(netems, 1)),
    ]


def bottleneck(cell: Cell) -> tuple[str, str]:
    """Return namespace and device of the queue towards the client."""
    return (SERVER, DEVICE) if cell.qdisc == "pfifo" else (LINK, f"to_{CLIENT}")


NFT = ["ip", "netns", "exec", LINK, "nft", "-f", "-"]
"""Takes the scripts for a trial on standard input, because they may be too long for an argument list."""


def scripts(cell: Cell, repetition: int) -> list[tuple[str, str]]:
    """Return the nft tables and scripts that drop and delay datagrams in a trial, for NFT."""
    both = (DROPS, drops(cell, repetition)), (REORDERED, reordered(cell, repetition))
    return [(table, script) for table, script in both if script is not None]


def drops(cell: Cell, repetition: int) -> str | None:
    """Return the script that resets the datagram counter and drops the trial's datagrams.

    `None` if the cell drops no datagram in any trial.
    """
    if not (cell.drop_to_client or cell.drop_to_server or cell.loss_percent):
        return None
    to_client = {*cell.drop_to_client, *losses.lost_datagrams(cell, "to_client", repetition)}
    to_server = {*cell.drop_to_server, *losses.lost_datagrams(cell, "to_server", repetition)}
    return _script(DROPS, 0, to_client, to_server, "drop")


def reordered(cell: Cell, repetition: int) -> str | None:
    """Return the script that resets the datagram counter and gives the trial's datagrams the longer delay.

    `None` if the cell reorders no datagram in any trial.
    """
    if not cell.reorders:
        return None
    to_client = reordering.numbers(cell, "to_client", repetition)
    to_server = reordering.numbers(cell, "to_server", repetition)
    # Runs before DROPS, so that its counter includes dropped datagrams.
    return _script(REORDERED, -1, to_client, to_server, f"meta priority set {_CLASSES}:2")


def _script(
    table: str, priority: int, to_client: Iterable[int], to_server: Iterable[int], verdict: str
) -> str:
    rules = []
    for name, address, indices in ((CLIENT, CLIENT_IP, to_client), (SERVER, SERVER_IP, to_server)):
        # numgen counts from 0 and restarts with its rule; the modulus is beyond any trial's datagrams.
        numbers = ", ".join(str(index - 1) for index in sorted(indices))
        if numbers:
            rules.append(
                f"add rule inet {table} forward ip daddr {address} meta l4proto {{ tcp, udp }} "
                f"oifname to_{name} numgen inc mod 1000000000 {{ {numbers} }} counter {verdict}"
            )
    commands = [
        f"add table inet {table}",
        f"delete table inet {table}",
        f"add table inet {table}",
        f"add chain inet {table} forward {{ type filter hook forward priority {priority} ; }}",
        *rules,
    ]
    return "".join(f"{line}\n" for line in commands)


def longest_wait_s(cell: Cell) -> float:
    """Return the longest time in seconds that a datagram can be on the path: a full queue plus the delay."""
    queued_ms = max(_queued_ms(cell, end) for end in (CLIENT, SERVER))
    return (queued_ms + max(cell.up_delay_ms, cell.down_delay_ms) + (cell.reorder_ms or 0)) / 1000


def _queued_ms(cell: Cell, end: str) -> float:
    """Return the time in which the full queue of an end empties."""
    rate_mbit, packets = (
        (cell.up_mbit, cell.up_queue_packets) if end == CLIENT else (cell.rate_mbit, cell.down_queue_packets)
    )
    size = cell.queue_bytes if packets is None else packets * _LARGEST_FRAME
    return (size or 0) * 8 / (rate_mbit * 1000)


def _rate(cell: Cell, end: str) -> str:
    """Return tbf's rate: bits of frames a second. Its bucket holds one frame, so nothing leaves in bursts."""
    rate_mbit = cell.up_mbit if end == CLIENT else cell.rate_mbit
    longest_ms = math.ceil(_queued_ms(cell, end)) + 1
    return f"rate {rate_mbit * 1e6:.0f}bit burst {_LARGEST_FRAME + _ETHERNET_BYTES} latency {longest_ms}ms"
