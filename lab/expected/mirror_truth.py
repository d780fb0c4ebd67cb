"""Expected results of crawl, option survey and downloads for each site with a file to download.

One entry per name: `download_file` and `tcp_option` by columns of these records, and `download` by set and
column. Sets have the options of docs/definitions.md, Downloads. An option is agreed if the SYN offers it and
the server's host enables it.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address, ip_network
from typing import Any

from lab.declared import file_sites, mirror_sites
from lab.declared.file_sites import FileSite
from lab.declared.internet import Internet
from lab.declared.mirror_sites import Mirror
from lab.declared.model import Host

# Set -> options in its SYN. All sets also offer timestamps.
SETS: dict[str, frozenset[str]] = {
    "warmup": frozenset(),
    "bl": frozenset(),
    "ws14": frozenset({"window_scaling"}),
    "all14": frozenset({"window_scaling", "sack", "ecn"}),
}
QUIC = "quiche"
# Number of complete bytes in a body with a wrong length (lab/hosts/odd_files.py).
_SHORT = 1_500_000


def lines(internet: Internet) -> Iterator[dict[str, Any]]:
    """Yield an entry per name, the mirrors' first, then the odd ones of host `files`.

    `asn` and `cdn` follow from the address and the lab's routes; null without an announcement.
    """
    hosts = {host.name: host for host in internet.hosts}
    crawled = {str(line["domain"]): line for line in file_sites.truth()}
    odd = [site for site in file_sites.sites() if site.label in mirror_sites.ODD]
    for site in (*mirror_sites.SITES, *odd):
        host = hosts[site.host if isinstance(site, Mirror) else "files"]
        asn, cdn = _origin(internet, site)
        file_truth = crawled.get(site.name) or file_sites.line(site)
        yield {
            "domain": site.name,
            "ip": site.ip,
            "asn": asn,
            "cdn": cdn,
            "download_file": file_truth,
            "tcp_option": _options(host),
            "download": {name: _download(site, host, name) for name in (*SETS, QUIC)},
        }


def _options(host: Host) -> dict[str, Any]:
    agreed = {name: _has(host, name) for name in ("window_scaling", "sack", "timestamps", "ecn")}
    return {"outcome": "answered", **agreed}


def _has(host: Host, option: str) -> bool:
    # Linux enables all of these options; ECN only on a client's request.
    return dict(host.tcp).get(option, 1) != 0


def _download(site: FileSite, host: Host, name: str) -> dict[str, Any]:
    capable = None if name == "warmup" else _quic_capable(site)
    if name == QUIC:
        return _over_quic(site) | {"quic_capable": capable}
    outcome, status, length = _over_tcp(site, name)
    if outcome == "skipped":
        return {"client": "curl", "outcome": outcome, "status": None, "quic_capable": capable}
    offered = SETS[name]
    return {
        "client": "curl",
        "quic_capable": capable,
        "outcome": outcome,
        "status": status,
        "http_version": "1.1",
        "options_as_set": True,
        "sack_server": "sack" in offered and _has(host, "sack"),
        "ecn_server": "ecn" in offered and _has(host, "ecn"),
        "timestamps_server": _has(host, "timestamps"),
        **({} if length is None else {"body_bytes": length}),
    }


def _over_tcp(site: FileSite, name: str) -> tuple[str, int, int | None]:
    """Return outcome, status and body bytes (`None`: not declared) for a download over TCP."""
    assert site.size is not None
    if isinstance(site, Mirror):
        if not site.moves:
            return "done", 200, site.size
        return ("redirect", 302, None) if name == "warmup" else ("skipped", 0, None)
    first = {"slow": "timeout", "wrong-length": "short", "changes": "done"}[site.label]
    if name == "warmup":
        return first, 200, {"wrong-length": _SHORT, "changes": site.size}.get(site.label)
    # Without a complete warm-up, later downloads are skipped. A file that has changed is `changed`.
    return ("changed", 200, site.size) if site.label == "changes" else ("skipped", 0, None)


def _over_quic(site: FileSite) -> dict[str, Any]:
    if isinstance(site, Mirror) and site.http3:
        return {
            "client": "quiche",
            "outcome": "done",
            "status": 200,
            "http_version": "3",
            "body_bytes": site.size,
        }
    return {"client": "quiche", "outcome": "skipped", "status": None}


def _quic_capable(site: FileSite) -> bool | None:
    """Return whether the file is available over HTTP/3; `None` after an incomplete warm-up."""
    if site.label in ("slow", "wrong-length", "moves"):
        return None
    return isinstance(site, Mirror) and site.http3


def _origin(internet: Internet, site: FileSite) -> tuple[int | None, str | None]:
    assert site.ip is not None
    address = ip_address(site.ip)
    nets = [(ip_network(route.prefix), route.as_path[-1]) for route in internet.routes]
    matches = [(net.prefixlen, asn) for net, asn in nets if net.version == 4 and address in net]
    if not matches:
        return None, None
    asn = max(matches)[1]
    return asn, {end.asn: end.cdn for end in internet.endpoints}.get(asn, "Others")
