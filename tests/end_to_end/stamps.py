"""Compares a probe's times with captures of the same packets, within bounds from the timestamps."""

from __future__ import annotations

from socket import IPPROTO_UDP
from typing import Any

from lab.system.link_log import LinkLog
from tests.end_to_end import oracle

Row = dict[str, Any]
NOTHING_SENT = ("blocked", "send_failed")
# Both sides floor times to microseconds, so differences of two times can differ by 1 us.
ROUNDING_US = 1


def key_of(row: Row) -> oracle.Key:
    """Return the probe's key in a capture."""
    return row["src_ip"], row["src_port"], row["ip"], row["client_cid"]


def possible_send_ns(reading: oracle.Reading, key: oracle.Key, log: LinkLog) -> tuple[int, int]:
    """Return the bounds (ns) of the send timestamp of the Initial that a probe's times refer to.

    The capture's timestamp is the earliest, then the driver takes the send timestamp, and then the packet
    arrives at the link.
    """
    client, port, server, _ = key
    flow = (client, server, IPPROTO_UDP, port, 443)
    return reading.sent_ns, log.first_since(flow, reading.sent_ns).arrived_ns


def wrong_stamps(row: Row, reading: oracle.Reading, possible: tuple[int, int]) -> list[str]:
    """Return the columns with impossible times, given the capture's times and the send time's bounds (ns)."""
    earliest, latest = possible
    found = [] if earliest <= row["sent_ns"] <= latest else ["sent_at"]
    for column, received_ns in (("ack_us", reading.ack_ns), ("sh_us", reading.sh_ns)):
        if row[column] is None or received_ns is None:
            found += [] if row[column] is received_ns else [column]
        # Socket and capture have the same receive timestamp.
        elif row[column] != (received_ns - row["sent_ns"]) // 1000:
            found.append(column)
    if None not in (row["ack_to_sh_us"], reading.ack_to_sh_us):
        parted = abs(row["ack_to_sh_us"] - reading.ack_to_sh_us) > ROUNDING_US
        found += ["ack_to_sh_us"] if parted else []
    return found


def shifted(row: Row, column: str, fault_us: int) -> Row:
    """Return the row with one time wrong by `fault_us`, as a prober with this fault records it."""
    moved = {**row, column: row.get(column, 0) + fault_us}
    if column == "sent_at":
        # All times are relative to this timestamp.
        moved |= {c: row[c] - fault_us for c in ("ack_us", "sh_us")}
        moved["sent_ns"] = row["sent_ns"] + fault_us * 1000
    return moved
