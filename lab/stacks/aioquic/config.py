"""The JSON file of the lab's aioquic server (docs/reference/lab-hosts.md)."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class CertificateFiles(BaseModel):
    """PEM files: the chain (leaf first, without the root) and the leaf's private key."""

    model_config = ConfigDict(extra="forbid")
    chain: Path
    key: Path


class AnswerConfig(BaseModel):
    """The answer to a request, for any method and path."""

    model_config = ConfigDict(extra="forbid")
    status: int
    headers: list[tuple[str, str]]
    delay_us: int | None = None
    body_bytes: int = Field(default=0, ge=0)  # bytes of content, all zero; 0: only the header section

    @property
    def fields(self) -> list[tuple[bytes, bytes]]:
        """Return the header section."""
        return [(b":status", str(self.status).encode())] + [
            (name.encode(), value.encode()) for name, value in self.headers
        ]


class EndpointConfig(BaseModel):
    """The answer for one name at one address."""

    model_config = ConfigDict(extra="forbid")
    domain: str
    ip: IPv4Address | IPv6Address
    mode: Literal["iack", "wait", "retry", "retry_iack"]
    delay_us: int | None
    certificate: str
    alpn: str = "h3"  # empty: no protocol
    http: AnswerConfig | None = None  # `None`: requests are never answered
    tickets: bool = False  # issue tickets, and accept 0-RTT packets

    @property
    def delay_s(self) -> float:
        return (self.delay_us or 0) / 1e6

    @property
    def acknowledges(self) -> bool:
        """Whether the server sends instant ACKs."""
        return self.mode in ("iack", "retry_iack")

    @property
    def retries(self) -> bool:
        """Whether the server sends a Retry first."""
        return self.mode in ("retry", "retry_iack")


class ServerConfig(BaseModel):
    """The JSON file."""

    model_config = ConfigDict(extra="forbid")
    port: int
    listen: list[IPv4Address | IPv6Address]
    certificates: dict[str, CertificateFiles]
    endpoints: list[EndpointConfig]

    def find(self, ip: str, sni: str | None) -> EndpointConfig:
        """Return the endpoint of an address for an SNI; without a match, return the first of the address."""
        at_ip = [endpoint for endpoint in self.endpoints if str(endpoint.ip) == ip]
        with_name = [endpoint for endpoint in at_ip if sni is not None and endpoint.domain == sni.lower()]
        return (with_name or at_ip)[0]


def read(file: Path) -> ServerConfig:
    """Read and check a server's file. Raises OSError or ValueError if it is unreadable or wrong."""
    config = ServerConfig.model_validate_json(file.read_text())
    for endpoint in config.endpoints:
        if endpoint.certificate not in config.certificates:
            raise ValueError(f"endpoint {endpoint.domain}: there is no certificate {endpoint.certificate}")
        first = config.find(str(endpoint.ip), None)
        if (first.retries, first.tickets) != (endpoint.retries, endpoint.tickets):
            raise ValueError(
                f"endpoints {first.domain} and {endpoint.domain} have one address, but differ in Retry or "
                "tickets"
            )
    missing = set(config.listen) - {endpoint.ip for endpoint in config.endpoints}
    if missing:
        raise ValueError(f"`listen` names {missing.pop()}, but no endpoint has that ip")
    return config
