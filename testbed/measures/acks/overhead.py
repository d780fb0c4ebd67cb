"""Table 3 of paper 003: ACK bytes per received packet, computed from the smallest sizes."""

from __future__ import annotations

from typing import Any

from testbed.measures.acks.model import overhead_bytes
from testbed.measures.numeric import Numeric, Published

# IP header, UDP header, short header with a packet number of two bytes, ACK frame of five, tag.
_QUIC_BYTES = {"IPv4": 20 + 8 + 2 + 5 + 16, "IPv6": 40 + 8 + 2 + 5 + 16}
_TCP_BYTES = {"IPv4": 20 + 20, "IPv6": 40 + 20}
# Twice the table's value at a ratio of 2. The table does not give the tunnel's share.
_VPN_BYTES = 120


def _rows() -> list[dict[str, Any]]:
    return [
        {"acks": name, "ack_bytes": size, "ratio": ratio, "bytes_per_packet": overhead_bytes(size, ratio)}
        for name, size in (
            *((f"TCP over {ip}", size) for ip, size in _TCP_BYTES.items()),
            *((f"QUIC over {ip}", size) for ip, size in _QUIC_BYTES.items()),
            ("QUIC in a tunnel", _VPN_BYTES),
        )
        for ratio in ((2,) if name.startswith("TCP") else (2, 10))
    ]


def _printed() -> tuple[Published, ...]:
    printed = (
        *(
            ("TCP over IPv4", 2, 20),
            ("TCP over IPv6", 2, 30),
            ("QUIC over IPv4", 2, 26),
            ("QUIC over IPv6", 2, 36),
        ),
        *(("QUIC over IPv4", 10, 5), ("QUIC over IPv6", 10, 7)),
        *(("QUIC in a tunnel", 2, 60), ("QUIC in a tunnel", 10, 14)),
    )
    # The tolerance is half a unit of the last digit.
    return tuple(
        Published({"acks": name, "ratio": ratio}, {"bytes_per_packet": value}, 0.5)
        for name, ratio, value in printed
    )


OVERHEAD = Numeric(
    title="Bytes of ACKs for each packet that is received, with the smallest ACKs",
    source="Reducing the acknowledgement frequency in IETF QUIC (2022), Table 3",
    rows=_rows,
    published=_printed(),
    notes=(
        "The smallest QUIC ACK has a short header of 2 bytes and a frame of 5, not 3 and 4: 51 either way.",
        "14 for a tunnel at ratio 10 is not 120 / 10; the table has 60 and 61 for the same case at ratio 2.",
        "A TCP ACK has 52 bytes with timestamps (26 for a packet), and 80 at most with SACK ranges, not 84.",
    ),
)
