"""A campaign's expected results: one line per (vantage point, name, address); paths and Table 1.

Computed from the behaviour file that `lab up` stored; no measuring stage reads it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.declared.internet import Internet
from lab.declared.model import Endpoint
from lab.expected.handshake_truth import HandshakeTruth
from lab.expected.probe_truth import ProbeTruth

# Table 1 with the paper's counting rules (docs/definitions.md): a probe counts if it has an ACK and a
# ServerHello and the first ACK frame has a First ACK Range of 0. It is an instant ACK if they arrived in
# different datagrams.
_LATE_ACK = {"sh_first_late_ack"}
_LONG_RANGE = {"retry_ack_range"}


@dataclass(frozen=True)
class Table1Row:
    """A CDN's row as declared; shares are fractions, or null without counted probes."""

    cdn: str
    domains: int
    iack_share_max: float | None
    variation: float | None


def lines(internet: Internet, state: Path | None = None) -> Iterator[dict[str, Any]]:
    """Return the truth, one dict per line, in the order of vantage points and ranks.

    `handshake` and `http3_response` hold the expected results of the handshake stage, by column, and
    `handshake_at_least` the shortest possible times (handshake_truth.py). Their certificates are in the
    lab's state folder. A name without an address has one line, in which all these and `ip`, `outcome`, `asn`
    and `cdn` are null. `ack_to_sh_us` is the declared delay of instant ACKs, null for other names. `epochs`
    lists the epochs with this address in DNS.
    """
    by_domain: dict[str, list[Endpoint | None]] = {}
    for declared in internet.endpoints:
        by_domain.setdefault(declared.domain, []).append(declared)
    seen_in = _epochs_of_addresses(internet)
    handshakes, probes = HandshakeTruth(internet, state), ProbeTruth(internet)
    vantages = [host.name for host in internet.hosts if host.kind == "vantage"]
    for vantage in vantages:
        for rank, domain in internet.names:
            status = _dns_status(internet, domain)
            for endpoint in by_domain.get(domain, [None]):
                yield {
                    "vantage": vantage,
                    "domain": domain,
                    "ip": endpoint and endpoint.ip,
                    "outcome": endpoint and endpoint.outcome,
                    "asn": endpoint and endpoint.asn,
                    "cdn": endpoint and endpoint.cdn,
                    "ack_to_sh_us": endpoint.delay_us if endpoint and endpoint.outcome == "iack" else None,
                    "dns_status": status,
                    "rank": rank,
                    "stack": endpoint and endpoint.stack,
                    "mode": endpoint and endpoint.mode,
                    "delay_us": endpoint and endpoint.delay_us,
                    "certificate": endpoint and endpoint.certificate,
                    "largest_initial": endpoint and probes.largest_initial(endpoint),
                    "ecn_verdict": endpoint and probes.ecn_verdict(endpoint),
                    "epochs": seen_in.get((domain, endpoint.ip), []) if endpoint else [],
                    "handshake": endpoint and handshakes.columns(endpoint),
                    "handshake_at_least": endpoint and handshakes.at_least(endpoint, vantage),
                    "http3_response": endpoint and handshakes.response(endpoint),
                }


def paths(internet: Internet) -> Iterator[dict[str, Any]]:
    """Return the properties of the link between each vantage point and each other host, one dict per pair.

    `rtt_us` is the round-trip time without any wait. `to_vantage` and `from_vantage` describe the bottleneck
    of that direction: `rate_bps` (IP packets, bits per second), `queue_packets`, `queue_bytes` (null: no such
    limit) and `shared` (whether all paths of a host share it). They are null without a bottleneck.
    """

    def bottleneck_row(source: str, destination: str) -> dict[str, Any] | None:
        bottleneck = internet.bottleneck(source, destination)
        if bottleneck is None:
            return None
        return {
            "rate_bps": bottleneck.rate_bps,
            "queue_packets": bottleneck.queue_packets,
            "queue_bytes": bottleneck.queue_bytes,
            "shared": bottleneck.from_host is None or bottleneck.to_host is None,
        }

    for vantage in (host.name for host in internet.hosts if host.kind == "vantage"):
        for host in (host.name for host in internet.hosts if host.name != vantage):
            yield {
                "vantage": vantage,
                "host": host,
                "rtt_us": internet.rtt_us(vantage, host),
                "to_vantage": bottleneck_row(host, vantage),
                "from_vantage": bottleneck_row(vantage, host),
            }


def table1(internet: Internet) -> list[Table1Row]:
    """Return Table 1 as declared: first IPv4 address of each name, one repetition per epoch."""
    truth = {(e.domain, e.ip): e for e in internet.endpoints}
    counts: dict[str, list[tuple[int, int]]] = {cdn: [] for cdn in internet.cdns}
    for epoch in range(1, internet.epochs + 1):
        counted = dict.fromkeys(internet.cdns, 0)
        iack = dict.fromkeys(internet.cdns, 0)
        for domain, ips in _addresses(internet, epoch).items():
            endpoint = truth[domain, ips[0]]
            if endpoint.cdn is None or ":" in endpoint.ip or not _has_ack_and_server_hello(endpoint):
                continue
            counted[endpoint.cdn] += 1
            iack[endpoint.cdn] += endpoint.outcome == "iack" or endpoint.mode in _LATE_ACK
        for cdn in internet.cdns:
            counts[cdn].append((counted[cdn], iack[cdn]))
    return [_row(cdn, repetitions) for cdn, repetitions in sorted(counts.items())]


def _row(cdn: str, repetitions: list[tuple[int, int]]) -> Table1Row:
    shares = [iack / counted for counted, iack in repetitions if counted]
    return Table1Row(
        cdn=cdn,
        domains=max(counted for counted, _ in repetitions),
        iack_share_max=max(shares) if shares else None,
        variation=max(shares) - min(shares) if shares else None,
    )


def _has_ack_and_server_hello(endpoint: Endpoint) -> bool:
    if endpoint.mode in _LONG_RANGE:
        return False
    return endpoint.outcome in ("iack", "coalesced") or endpoint.mode in _LATE_ACK


def _dns_status(internet: Internet, domain: str) -> str:
    if domain in internet.servfail:
        return "SERVFAIL"
    return "NXDOMAIN" if domain in internet.nxdomain else "NOERROR"


def _addresses(internet: Internet, epoch: int) -> dict[str, list[str]]:
    """Return each listed name's addresses after following CNAMEs: IPv4 first, in the order of the records."""
    records = internet.records(epoch)
    alias = {r.name: r.data for r in records if r.type == "CNAME"}
    by_name: dict[str, list[str]] = {}
    for kind in ("A", "AAAA"):
        for record in records:
            if record.type == kind:
                by_name.setdefault(record.name, []).append(record.data)
    by_domain = {domain: by_name.get(alias.get(domain, domain), []) for _, domain in internet.names}
    return {domain: ips for domain, ips in by_domain.items() if ips}


def _epochs_of_addresses(internet: Internet) -> dict[tuple[str, str], list[int]]:
    epochs: dict[tuple[str, str], list[int]] = {}
    for epoch in range(1, internet.epochs + 1):
        for domain, ips in _addresses(internet, epoch).items():
            for ip in ips:
                epochs.setdefault((domain, ip), []).append(epoch)
    return epochs
