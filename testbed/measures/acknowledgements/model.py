"""The paper's model of acknowledgements (paper 003, section 5.4 and Table 3)."""

from __future__ import annotations

BY_TIMER = 0.5
"""The paper's α: the mean share of the ratio's packets that an ACK by the timer acknowledges."""
ETHERNET_BYTES = 14
HEADERS_BYTES = ETHERNET_BYTES + 20 + 8
"""Headers of Ethernet, IPv4 and UDP."""


def acks(
    packets: float,
    ratio: float,
    by_timer: float,
    later: tuple[float, float] | None = None,
    *,
    alpha: float = BY_TIMER,
) -> float:
    """Return the number of ACKs for `packets` ack-eliciting packets without loss; the timer sends `by_timer`.

    This is equation 4. `later`: the number of packets with the first ratio, and the ratio of all others.
    Without `later` it is equation 3. `alpha`: the mean share of the ratio's packets in an ACK by the timer.
    """
    initial, other = (packets, ratio) if later is None else (min(packets, later[0]), later[1])
    return initial / ratio + (packets - initial) / other + (1 - alpha) * by_timer


def forward_limit_mbit(up_mbit: float, ratio: float, data_bytes: float, ack_bytes: float) -> float:
    """Return the data rate at which ACKs fill the return direction, in Mbit/s.

    `up_mbit` is the return direction's rate; `data_bytes` and `ack_bytes` include all headers that a rate
    counts.
    """
    return up_mbit * ratio * data_bytes / ack_bytes


def overhead_bytes(ack_bytes: float, ratio: float) -> float:
    """Return the ACK bytes per received packet (Table 3)."""
    return ack_bytes / ratio
