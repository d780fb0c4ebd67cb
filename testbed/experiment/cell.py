"""A cell of an experiment: two stacks, the path between them, and the server's answer."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from testbed.choices import Answering, Protocol
from testbed.experiment.ack_part import AckPart
from testbed.experiment.path_part import PathPart
from testbed.experiment.server_part import ServerPart

Named = Literal[
    "certificate_bytes",
    "certificate_delay_ms",
    "drop_to_client",
    "drop_to_server",
    "body_bytes",
    "reorder_to_client",
    "reorder_to_server",
]
"""Fields that a cell's name contains only if `named` lists them."""


class Cell(AckPart, ServerPart, PathPart):
    """One combination of conditions, the same in each repetition."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    client: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$", description="Stack of the client.")
    server: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$", description="Stack of the server.")
    answering: Answering = Field(
        description="The server's first answer: instant ACK, or wait for certificate (ACK and ServerHello in "
        "one datagram)."
    )
    alpn: Protocol | None = Field(
        default=None,
        description="Application protocol (ALPN): h3, or hq-interop for HTTP/0.9; by default the client's.",
    )
    responses: int = Field(
        default=1, ge=1, le=10_000, description="Responses that the client requests, one after another."
    )
    think_ms: float = Field(
        default=0, ge=0, le=600_000, description="Pause after a response, before the next request."
    )
    named: tuple[Named, ...] = Field(default=(), description="Further fields that the cell's name contains.")
    client_qlog: bool = Field(default=False, description="The client writes its own log (qlog).")

    @property
    def name(self) -> str:
        """Return the cell's name, which is also its result folder's name.

        The name contains the fields that distinguish cells. The experiment's file gives the common fields.
        """
        name = f"{self.client}-{self.server}-{self.answering}-{self.rtt_ms:g}ms"
        if self.handshake != "full":
            name += f"-{self.handshake}"
        if self.alpn is not None:
            name += f"-{self.alpn.replace('/', '-')}"
        more = {
            "{:g}ms-up": self.delay_to_server_ms,
            "{:g}up": self.rate_to_server_mbit,
            "{}queued": self.queue_to_server_packets,
            "{}bytes": self.queue_bytes,
            "{}": self.congestion_control,
            "at-{}": None if self.qdisc == "pfifo" else self.qdisc.replace("_", "-"),
            "{}gso": self._buffers if self.gso else None,
            "ar{}": self.ack_ratio,
            "then{}": self.ack_ratio_later,
            "after{}": self.ack_ratio_later_after,
            "{:g}late": self.ack_delay_ms,
            "{:g}lost": self.loss_percent or None,
            "{:g}netem-down": self.netem_loss_to_client_percent or None,
            "{:g}netem-up": self.netem_loss_to_server_percent or None,
            "{:g}reordered": self.reorder_percent or None,
            "{:g}ms-behind": self.reorder_ms,
            "{}-key": None
            if self.certificate_key == "ecdsa_p256"
            else self.certificate_key.replace("_", "-"),
            "{}responses": None if self.responses == 1 else self.responses,
            "{:g}thinking": self.think_ms or None,
        }
        more |= {words: value for field, words, value in self._more_named() if field in self.named}
        name += "".join("-" + words.format(value) for words, value in more.items() if value is not None)
        return name if self.ack_reordering is None else f"{name}-{self.ack_reordering.replace('_', '-')}"

    @property
    def _buffers(self) -> str:
        """Return the words in the name for the buffers of the server."""
        paced = "paced-" if self.gso_paced else ""
        return f"{paced}{self.gso_segments or ''}"

    def _more_named(self) -> tuple[tuple[Named, str, float | str | None], ...]:
        """Return the optional fields of the name, each with the words in the name."""
        return (
            ("certificate_bytes", "{}der", self.certificate_bytes),
            ("certificate_delay_ms", "{:g}waiting", self.certificate_delay_ms),
            ("drop_to_client", "down-{}-lost", _joined(self.drop_to_client)),
            ("drop_to_server", "up-{}-lost", _joined(self.drop_to_server)),
            ("reorder_to_client", "down-{}-reordered", _joined(self.reorder_to_client)),
            ("reorder_to_server", "up-{}-reordered", _joined(self.reorder_to_server)),
            ("body_bytes", "{}body", self.body_bytes),
        )


def _joined(numbers: tuple[int, ...]) -> str | None:
    """Return numbers in the form used in names; `None` without numbers."""
    return "-".join(map(str, numbers)) or None
