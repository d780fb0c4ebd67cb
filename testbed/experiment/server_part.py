"""A cell's server: certificate, response and congestion control."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, Field, model_validator

from testbed.choices import CertificateKey, Controller, Handshake

_SHORTEST_RSA_BYTES = 1500
"""Least length in DER for a chain with RSA keys: a leaf has about 830 bytes, an intermediate 640."""


class ServerPart(BaseModel):
    """The certificate, response and congestion control of the server."""

    certificate_bytes: int = Field(
        default=1200, ge=1000, le=60_000, description="Length of the certificate chain in DER."
    )
    certificate_key: CertificateKey = Field(
        default="ecdsa_p256", description="Type of the keys of leaf and intermediates; RSA needs 1,500 bytes."
    )
    certificate_delay_ms: float = Field(
        default=0, ge=0, le=10_000, description="Time until the server has its certificate (paper 000: Δt)."
    )
    handshake: Handshake = Field(
        default="full",
        description="A full handshake, one after a Retry, or a resumed session with the request in 0-RTT.",
    )
    body_bytes: int = Field(
        default=0, ge=0, le=1 << 30, description="Length of the response's body; 0: only a header section."
    )
    congestion_control: Controller | None = Field(
        default=None, description="Congestion control of the server; by default the stack's own."
    )
    server_log: bool = Field(
        default=False, description="The server logs launch times and its congestion window."
    )
    server_qlog: bool = Field(default=False, description="The server writes its own log (qlog).")

    @model_validator(mode="after")
    def _has_room_for_its_keys(self) -> Self:
        if self.certificate_key == "rsa_2048" and self.certificate_bytes < _SHORTEST_RSA_BYTES:
            raise ValueError(
                f"a chain with the keys rsa_2048 has {_SHORTEST_RSA_BYTES} bytes at least: give more "
                "`certificate_bytes`"
            )
        return self
