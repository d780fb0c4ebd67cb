"""The fixed and varied conditions of an experiment: every cell field with its values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from testbed.experiment.cell import Cell

NAMES = {
    "client": "Client",
    "server": "Server",
    "answering": "Answer (iack: instant ACK; wfc: wait for certificate)",
    "alpn": "Application protocol (ALPN)",
    "rtt_ms": "RTT [ms]",
    "delay_to_server_ms": "Delay to the server, of the RTT [ms]",
    "rate_mbit": "Rate to the client [Mbit/s]",
    "rate_to_server_mbit": "Rate to the server [Mbit/s]",
    "queue_packets": "Queue to the client [packets]",
    "queue_to_server_packets": "Queue to the server [packets]",
    "queue_bytes": "Queue to the client [bytes]",
    "qdisc": "Queueing discipline at the server",
    "gso": "Segmentation offload (GSO) at the server",
    "gso_segments": "Datagrams that fill a buffer",
    "gso_paced": "A launch time for each datagram of a buffer",
    "handshake": "Handshake (resumed: with the request in 0-RTT packets)",
    "certificate_bytes": "Certificate chain [bytes of DER]",
    "certificate_key": "Keys of the certificate chain",
    "certificate_delay_ms": "Delay of the certificate [ms]",
    "loss_percent": "Random loss in each direction [%]",
    "netem_loss_to_client_percent": "Random loss by netem to the client [%]",
    "netem_loss_to_server_percent": "Random loss by netem to the server [%]",
    "drop_to_client": "Datagrams to the client that are dropped",
    "drop_to_server": "Datagrams to the server that are dropped",
    "drop_second_flight": "The client's second flight is dropped",
    "reorder_to_client": "Datagrams to the client that arrive later than others",
    "reorder_to_server": "Datagrams to the server that arrive later than others",
    "reorder_percent": "Random share of each direction that arrives later [%]",
    "reorder_ms": "How much later those arrive [ms]",
    "body_bytes": "Body of the response [bytes]",
    "responses": "Responses in sequence",
    "think_ms": "Pause after a response [ms]",
    "congestion_control": "Congestion control of the server",
    "ack_ratio": "Requested packets for each ACK",
    "ack_ratio_later": "Requested packets for each ACK, later",
    "ack_ratio_later_after": "Packets before the later request",
    "ack_delay_ms": "Requested maximum delay of an ACK [ms]",
    "ack_reordering": "Requested response to reordering",
    "client_qlog": "The client writes its own log (qlog)",
    "server_qlog": "The server writes its own log (qlog)",
    "server_log": "The server writes launch times and windows",
}
"""Words for each field in a cell, in a page's order."""
# Text for fields that a cell does not set.
_SAME = {
    "delay_to_server_ms": "half",
    "alpn": "the client's",
    "rate_to_server_mbit": "as to the client",
    "queue_to_server_packets": "as to the client",
    "congestion_control": "the server's own",
    "ack_ratio": "nothing asked",
    "ack_ratio_later": "nothing else",
    "ack_ratio_later_after": "no later request",
    "ack_delay_ms": "nothing asked",
    "ack_reordering": "nothing asked",
    "queue_bytes": "no limit in bytes",
    "gso_segments": "the server's own limit",
}


@dataclass(frozen=True)
class Condition:
    """A cell field: the description, and the values in the order of the cells."""

    name: str
    values: tuple[str, ...]

    @property
    def varied(self) -> bool:
        """Return whether cells differ in it."""
        return len(self.values) > 1


def conditions(cells: Sequence[Cell]) -> list[Condition]:
    """Return every field of `cells`, varied fields first."""
    found = [
        Condition(
            name,
            tuple(dict.fromkeys(_text(field, getattr(cell, field)) for cell in cells)),
        )
        for field, name in NAMES.items()
    ]
    return sorted(found, key=lambda condition: not condition.varied)


def _text(field: str, value: object) -> str:
    if isinstance(value, bool):
        return ("no", "yes")[value]
    if isinstance(value, tuple):
        return " and ".join(map(str, value)) or "none"
    if value is None:
        return _SAME.get(field, "none")
    return (
        f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)
    )
