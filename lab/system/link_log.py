"""The link emulator's log: each packet's arrival, planned release, wait at a bottleneck, and lateness.

Three clock readings stamp a packet on the way from one host to another, all of the kernel's realtime clock:

    captured when it leaves <= arrived_ns,    arrived_ns + wait_ns + delay = release_ns
    release_ns <= captured when it is received <= release_ns + late_ns

`wait_ns` is the time in the queue and the packet's transmission time, 0 without a bottleneck. The first
inequality holds because the sender's kernel stamps the packet before passing it on. The last one holds
because `late_ns` is taken after the receiver's kernel got the packet (lab/link/README.md). Every packet
therefore bounds the error of the stamps at both ends, even on a busy machine.
"""

from __future__ import annotations

import csv
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# Source and destination address, protocol (IANA's number), source and destination port.
Flow = tuple[str, str, int, int, int]
ANSWER_WINDOW_NS = 4_000_000_000  # a probe's packets arrive within its answer window


@dataclass(frozen=True, order=True)
class Passage:
    """One packet through the link; times in ns since 1970, lengths in bytes of IP.

    `late_ns` and `wait_ns` are `None` for a dropped packet; `dropped_by` is then `rule` (declared) or `queue`
    (the queue was full), else empty. A dropped packet's release is the arrival plus the delay.
    """

    arrived_ns: int
    release_ns: int
    late_ns: int | None
    wait_ns: int | None = None
    dropped_by: str = ""
    ip_length: int = 0

    def holds(self, received_ns: int) -> bool:
        """Return whether a receive stamp is possible for this packet."""
        return self.late_ns is not None and 0 <= received_ns - self.release_ns <= self.late_ns


def rows(path: Path) -> Iterator[dict[str, str]]:
    """Yield the lines of `lateness.csv` by column, without an incomplete last line."""
    with path.open(newline="", encoding="ascii") as lines:
        yield from csv.DictReader(line for line in lines if line.endswith("\n"))


class LinkLog:
    """Packets by flow, from `lateness.csv`."""

    def __init__(self, path: Path) -> None:
        flows: dict[Flow, list[Passage]] = defaultdict(list)
        for row in rows(path):
            passage = Passage(
                int(row["arrived_ns"]),
                int(row["release_ns"]),
                int(row["late_ns"]) if row["late_ns"] else None,
                int(row["wait_ns"]) if row["wait_ns"] else None,
                row["dropped_by"],
                int(row["ip_length"]),
            )
            flow = row["src"], row["dst"], int(row["protocol"]), int(row["sport"]), int(row["dport"])
            flows[flow].append(passage)
        self._flows = {flow: sorted(packets) for flow, packets in flows.items()}

    def flows(self) -> Iterator[tuple[Flow, list[Passage]]]:
        """Yield every flow with the packets in the order of their arrival."""
        yield from self._flows.items()

    def first_since(self, flow: Flow, left_ns: int) -> Passage:
        """Return the packet of the flow that left its host at `left_ns`: the first arrival from then on.

        Raises KeyError if the log does not contain it. The log must contain every packet of the sender's
        capture.
        """
        packets = self._flows.get(flow, [])
        index = bisect_left(packets, Passage(left_ns, 0, None))
        if index == len(packets) or packets[index].arrived_ns - left_ns > ANSWER_WINDOW_NS:
            raise KeyError((flow, left_ns))
        return packets[index]

    def delays(self) -> Iterator[tuple[str, str, int]]:
        """Yield (source, destination, ns from arrival to release without its wait) of every packet."""
        for (src, dst, *_), packets in self._flows.items():
            for packet in packets:
                yield src, dst, packet.release_ns - packet.arrived_ns - (packet.wait_ns or 0)

    def lateness_ns(self) -> Iterator[int]:
        """Yield `late_ns` of every packet that was sent."""
        for packets in self._flows.values():
            yield from (packet.late_ns for packet in packets if packet.late_ns is not None)
