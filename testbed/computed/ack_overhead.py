"""Table 3 of paper 003: ACK bytes per received packet, computed from the smallest sizes."""

from __future__ import annotations

from typing import Any

from testbed.computed.numeric import Numeric, PublishedValues
from testbed.measures.acknowledgements.model import overhead_bytes

# IP header, UDP header, short header with a 2-byte packet number, 5-byte ACK frame, tag.
_QUIC_BYTES = {"IPv4": 20 + 8 + 2 + 5 + 16, "IPv6": 40 + 8 + 2 + 5 + 16}
_TCP_BYTES = {"IPv4": 20 + 20, "IPv6": 40 + 20}
# Twice the table's values for a ratio of 2. The table does not give the tunnel's share.
_TUNNEL_BYTES = {"TCP": 108, "QUIC": 120}
# ROHC replaces the headers of IP and UDP by a packet of type 0 (RFC 3095, 5.7.1 and 5.11): one byte, the UDP
# checksum, and with IPv4 the identification, which Linux changes at random (5.7).
_ROHC_UDP_BYTES = {"IPv4": (20 + 8, 1 + 2 + 2), "IPv6": (40 + 8, 1 + 2)}
# Implied by the table. The smallest packets of ROHC-TCP that change the acknowledgement number (RFC 6846) are
# about as long.
_ROHC_TCP_BYTES = {"IPv4": 4, "IPv6": 6}
_PEP_RATIO = 10
"""Implied by the table: a proxy that splits the TCP connection (RFC 3135) sends an ACK for ten packets.

RFC 3449 describes proxies that reduce ACKs.
"""


def _cases() -> list[tuple[str, int, int]]:
    """Return name, bytes of an ACK, and ratio of each value."""
    headers, compressed = _ROHC_UDP_BYTES["IPv4"]
    return [
        *((f"TCP over {ip}", size, 2) for ip, size in _TCP_BYTES.items()),
        *((f"QUIC over {ip}", size, ratio) for ip, size in _QUIC_BYTES.items() for ratio in (2, 10)),
        *((f"{kind} in a tunnel", size, 2) for kind, size in _TUNNEL_BYTES.items()),
        ("QUIC in a tunnel", _TUNNEL_BYTES["QUIC"], 10),
        *((f"TCP over {ip}, PEP", size, _PEP_RATIO) for ip, size in _TCP_BYTES.items()),
        # The proxy cannot read the ACKs.
        ("TCP in a tunnel, PEP", _TUNNEL_BYTES["TCP"], 2),
        *((f"TCP over {ip}, ROHC", size, 2) for ip, size in _ROHC_TCP_BYTES.items()),
        *(
            (f"QUIC over {ip}, ROHC", size - _ROHC_UDP_BYTES[ip][0] + _ROHC_UDP_BYTES[ip][1], 10)
            for ip, size in _QUIC_BYTES.items()
        ),
        ("TCP in a tunnel, ROHC", _TUNNEL_BYTES["TCP"] - headers + compressed, 2),
        ("QUIC in a tunnel, ROHC", _TUNNEL_BYTES["QUIC"] - headers + compressed, 10),
    ]


def _rows() -> list[dict[str, Any]]:
    return [
        {"acks": name, "ack_bytes": size, "ratio": ratio, "bytes_per_packet": overhead_bytes(size, ratio)}
        for name, size, ratio in _cases()
    ]


def _printed() -> tuple[PublishedValues, ...]:
    printed = (
        *(
            ("TCP over IPv4", 2, 20),
            ("TCP over IPv6", 2, 30),
            ("QUIC over IPv4", 2, 26),
            ("QUIC over IPv6", 2, 36),
        ),
        *(("QUIC over IPv4", 10, 5), ("QUIC over IPv6", 10, 7)),
        *(("TCP in a tunnel", 2, 54), ("QUIC in a tunnel", 2, 60), ("QUIC in a tunnel", 10, 14)),
        *(("TCP over IPv4, PEP", 10, 4), ("TCP over IPv6, PEP", 10, 6), ("TCP in a tunnel, PEP", 2, 54)),
        *(("TCP over IPv4, ROHC", 2, 2), ("TCP over IPv6, ROHC", 2, 3)),
        *(("QUIC over IPv4, ROHC", 10, 3), ("QUIC over IPv6, ROHC", 10, 3)),
        *(("TCP in a tunnel, ROHC", 2, 43), ("QUIC in a tunnel, ROHC", 10, 10)),
    )
    # The tolerance is half a unit of the last digit.
    return tuple(
        PublishedValues({"acks": name, "ratio": ratio}, {"bytes_per_packet": value}, 0.5)
        for name, ratio, value in printed
    )


OVERHEAD = Numeric(
    title="Bytes of ACKs for each packet that is received, with the smallest ACKs",
    source="Reducing the acknowledgement frequency in IETF QUIC (2022), Table 3",
    rows=_rows,
    published=_printed(),
    published_notes=(
        "The smallest QUIC ACK has a short header of 2 bytes and a frame of 5, not 3 and 4: 51 either way.",
        "14 for a tunnel at ratio 10 is not 120 / 10; the table has 60 and 61 for the same case at ratio 2.",
        "With ROHC, IP and UDP headers have the lengths of RFC 3095, which give the text's 71 to 26 bytes.",
        "The lengths of compressed TCP headers and the ratio of the PEP follow from the values.",
        "A TCP ACK has 52 bytes with timestamps (26 for a packet), and 80 at most with SACK ranges, not 84.",
    ),
)
