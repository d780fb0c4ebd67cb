"""The link emulator's log: each packet's arrival, planned release and lateness.

Three clocks stamp a packet on its way from one host to another, all of them the kernel's realtime clock:

    captured when it leaves <= arrived_ns,    arrived_ns + delay = release_ns
    release_ns <= captured when it is received <= release_ns + late_ns

The first inequality holds because the sender's kernel stamps the packet before passing it on, the last one
because `late_ns` is taken after the receiver's kernel got it (lab/link/README.md). So every packet bounds the
error of the stamps at both ends, on a busy machine too.
"""

from __future__ import annotations

import csv
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

Flow = tuple[str, str, int, int]  # source and destination address, source and destination port
ANSWER_WINDOW_NS = 4_000_000_000  # a probe's packets arrive within its answer window


@dataclass(frozen=True, order=True)
class Passage:
    """One packet through the link; times in ns since 1970, `late_ns` None for a packet that was dropped."""

    arrived_ns: int
    release_ns: int
    late_ns: int | None

    def holds(self, received_ns: int) -> bool:
        """Return whether a receive stamp is possible for this packet."""
        return self.late_ns is not None and 0 <= received_ns - self.release_ns <= self.late_ns


class LinkLog:
    """Packets by flow, from `lateness.csv`."""

    def __init__(self, path: Path) -> None:
        flows: dict[Flow, list[Passage]] = defaultdict(list)
        with path.open(newline="", encoding="ascii") as lines:
            for row in csv.DictReader(lines):
                if row["fate"] is None or not row["arrived_ns"]:
                    continue  # a line that is still being written
                late = int(row["late_ns"]) if row["late_ns"] else None
                flow = (row["src"], row["dst"], int(row["sport"]), int(row["dport"]))
                flows[flow].append(Passage(int(row["arrived_ns"]), int(row["release_ns"]), late))
        self._flows = {flow: sorted(packets) for flow, packets in flows.items()}

    def first_since(self, flow: Flow, left_ns: int) -> Passage:
        """Return the packet of the flow that left its host at `left_ns`: the first that arrived since.

        Raises KeyError if the log has none: it must contain every packet of the sender's capture.
        """
        packets = self._flows.get(flow, [])
        at = bisect_left(packets, Passage(left_ns, 0, None))
        if at == len(packets) or packets[at].arrived_ns - left_ns > ANSWER_WINDOW_NS:
            raise KeyError((flow, left_ns))
        return packets[at]

    def delays(self) -> Iterator[tuple[str, str, int]]:
        """Yield (source, destination, ns from arrival to planned release) of every packet."""
        for (src, dst, *_), packets in self._flows.items():
            for packet in packets:
                yield src, dst, packet.release_ns - packet.arrived_ns

    def lateness_ns(self) -> Iterator[int]:
        """Return `late_ns` of every packet that was sent."""
        for packets in self._flows.values():
            yield from (packet.late_ns for packet in packets if packet.late_ns is not None)
