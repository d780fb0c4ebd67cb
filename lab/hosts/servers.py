"""The QUIC servers of the lab: one process per (host, stack), each with its configuration file.

docs/reference/lab-hosts.md describes the file. lab/stacks contains the servers.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Protocol

from firstflight.errors import UsageError
from firstflight.system import binaries
from lab import stacks
from lab.declared.model import CertificateName, Endpoint, HttpAnswer, Service
from lab.hosts.certificates import FLAWS, Authority, ServerCertificate, issue, make_authority

PORT = 443
CHAIN_BYTES = {"small": 1200, "large": 5000}
"""Length of each certificate chain, in bytes of DER."""


class HasEndpoints(Protocol):
    """The part of `lab.declared.internet.Internet` that this module uses."""

    @property
    def endpoints(self) -> tuple[Endpoint, ...]: ...


def services(internet: HasEndpoints, state: Path) -> list[Service]:
    """Write the servers' configurations and certificates below STATE and return the servers to run.

    Endpoints of stack `none` get no server: their addresses answer "port unreachable". Raises UsageError if a
    program is not built or two endpoints contradict each other.
    """
    state = state.resolve()
    authority = make_authority(state)
    groups: dict[tuple[str, str], list[Endpoint]] = defaultdict(list)
    for endpoint in internet.endpoints:
        if endpoint.stack != stacks.NO_SERVER:
            groups[endpoint.host, endpoint.stack].append(endpoint)
    _check_owners(internet.endpoints)

    by_stack: dict[str, list[Endpoint]] = defaultdict(list)
    for (_, stack), endpoints in groups.items():
        by_stack[stack] += endpoints
    certificates = {stack: _issue(authority, stack, endpoints) for stack, endpoints in by_stack.items()}
    return [
        _service(state, host, stack, endpoints, certificates[stack])
        for (host, stack), endpoints in sorted(groups.items())
    ]


def configuration(
    endpoints: Sequence[Endpoint], certificates: dict[str, ServerCertificate], port: int = PORT
) -> dict[str, object]:
    """Return a server process's configuration, as in the JSON file."""
    return {
        "port": port,
        "listen": sorted({endpoint.ip for endpoint in endpoints}, key=_address_order),
        "certificates": {
            size: {"chain": str(files.chain), "key": str(files.key)} for size, files in certificates.items()
        },
        "endpoints": [
            {
                "domain": endpoint.domain,
                "ip": endpoint.ip,
                "mode": endpoint.mode,
                "delay_us": endpoint.delay_us,
                "certificate": endpoint.certificate,
                "alpn": endpoint.alpn,
                "http": endpoint.http and _answer(endpoint.http),
            }
            for endpoint in endpoints
        ],
    }


def _answer(answer: HttpAnswer) -> dict[str, object]:
    return {"status": answer.status, "headers": answer.headers, "delay_us": answer.delay_us}


def _service(
    state: Path,
    host: str,
    stack: str,
    endpoints: Sequence[Endpoint],
    certificates: dict[str, ServerCertificate],
) -> Service:
    file = state / "servers" / f"{host}-{stack}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(configuration(endpoints, certificates), indent=1) + "\n")
    return Service(
        name=f"{stack} on {host}",
        host=host,
        argv=stacks.find(stack).command(file),
        ready=r"^READY$",
        cwd=binaries.repository(),
        realtime=stacks.find(stack).realtime,
    )


def chain_file(state: Path, stack: str, certificate: CertificateName) -> Path:
    """Return the file (PEM) of the chain for a stack's servers."""
    return state / "certificates" / f"{stack}-{certificate}.pem"


def _issue(authority: Authority, stack: str, endpoints: Sequence[Endpoint]) -> dict[str, ServerCertificate]:
    """Write a stack's certificates: both sizes, and each flaw that an endpoint uses."""
    names = sorted({_wildcard(endpoint.domain) for endpoint in endpoints})
    issued = {
        size: issue(authority, f"{stack}-{size}", names, chain_bytes=length)
        for size, length in CHAIN_BYTES.items()
    }
    used = {endpoint.certificate for endpoint in endpoints}
    return issued | {
        flaw: issue(authority, f"{stack}-{flaw}", names, flaw=flaw) for flaw in FLAWS if flaw in used
    }


def _check_owners(endpoints: Sequence[Endpoint]) -> None:
    """Check that each address has only one stack, because stacks cannot share a socket or go without one."""
    owners: dict[str, Endpoint] = {}
    for endpoint in endpoints:
        first = owners.setdefault(endpoint.ip, endpoint)
        if (first.host, first.stack) != (endpoint.host, endpoint.stack):
            raise UsageError(
                f"{endpoint.ip} is {first.stack} on {first.host} for {first.domain} and {endpoint.stack} on "
                f"{endpoint.host} for {endpoint.domain}: give them separate addresses"
            )


def _wildcard(domain: str) -> str:
    """Return the certificate name for a domain: a wildcard at its parent, or itself below a single label."""
    _, _, parent = domain.partition(".")
    return f"*.{parent}" if "." in parent else domain


def _address_order(ip: str) -> tuple[int, int]:
    address = ip_address(ip)
    return address.version, int(address)
