"""The link emulator's log: how late it released the packets of one flow."""

from __future__ import annotations

import csv
from bisect import bisect_left, bisect_right
from collections import defaultdict
from pathlib import Path

WINDOW_NS = 4_000_000_000  # a probe's packets come within its answer window


class Lateness:
    """Lateness by flow, from `lateness.csv` (lab/link/README.md)."""

    def __init__(self, path: Path) -> None:
        flows: dict[tuple[str, str, str], list[tuple[int, int]]] = defaultdict(list)
        with path.open(newline="", encoding="ascii") as lines:
            for row in csv.DictReader(lines):
                if row["late_ns"]:
                    key = (row["src"], row["dst"], row["dport"])
                    flows[key].append((int(row["release_ns"]), int(row["late_ns"])))
        self._flows = {key: sorted(packets) for key, packets in flows.items()}

    def worst_us(self, server: str, client: str, client_port: int, sent_ns: int) -> float:
        """How late the latest packet from the server to that probe was released, microseconds.

        Raises KeyError if the log has no such packet: a probe that was answered must stand in it.
        """
        packets = self._flows[server, client, str(client_port)]
        first = bisect_left(packets, (sent_ns, 0))
        last = bisect_right(packets, (sent_ns + WINDOW_NS, 0))
        if first == last:
            raise KeyError((server, client, client_port, sent_ns))
        return max(late for _, late in packets[first:last]) / 1000
