"""What the paper expects of acknowledgements, as arithmetic (paper 003, section 5.4 and Table 3)."""

from __future__ import annotations

BY_TIMER = 0.5
"""The paper's α: an ACK that its timer sends acknowledges this part of the ratio's packets, on average."""
ETHERNET_BYTES = 14


def acks(packets: float, ratio: float, by_timer: float) -> float:
    """Return how many ACKs `packets` ack-eliciting packets get without loss, `by_timer` of them by the timer.

    Equation 3, which is equation 4 without a first part of the connection that has another ratio.
    """
    return packets / ratio + (1 - BY_TIMER) * by_timer


def forward_limit_mbit(up_mbit: float, ratio: float, data_bytes: float, ack_bytes: float) -> float:
    """Return the rate of data at which ACKs fill the way back, in Mbit/s.

    `up_mbit` is that way's rate; `data_bytes` and `ack_bytes` are sizes with all headers that a rate counts.
    """
    return up_mbit * ratio * data_bytes / ack_bytes


def overhead_bytes(ack_bytes: float, ratio: float) -> float:
    """Return the bytes of ACKs for one packet that came (Table 3)."""
    return ack_bytes / ratio
