"""The lab's routing table: two BIRD routers that speak real BGP, and the collector's table as MRT.

A route server on host `dns` sends every `Announcement` of the lab over eBGP, with one session for IPv4 and
one for IPv6. It omits its AS from the path (RFC 7947, 2.2.2.1), so that the path is exactly as declared. A
collector on host `web` learns the routes and writes the tables as TABLE_DUMP_V2 (RFC 6396, 4.3) with BIRD's
MRT protocol; `lab.as_data.routeviews` publishes them. Neither router changes the kernel's routes.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from pathlib import Path

from firstflight.errors import UsageError
from lab.declared.model import Announcement, Host, Service
from lab.system.programs import program

COLLECTOR_AS = 6447  # the AS of RouteViews' collectors
ROUTE_SERVER_AS = 65534  # private use (RFC 6996); never in a path

# AS numbers that pyasn's converter treats as bogus and skips, taking the AS before it as the origin.
_BOGUS = ((0, 0), (64496, 131071), (1_000_000, 2**32 - 1))


def check_routes(routes: Iterable[Announcement]) -> None:
    """Raise UsageError for a route that cannot be announced, or with an origin that readers would miss."""
    visited = set()
    for route in routes:
        try:
            network = ipaddress.ip_network(route.prefix)
        except ValueError as error:
            raise UsageError(
                f"lab route {route.prefix}: {error}; write a prefix without host bits"
            ) from error
        if network in visited:
            raise UsageError(f"lab route {route.prefix} is declared twice; leave one")
        visited.add(network)
        if not route.as_path:
            raise UsageError(f"lab route {route.prefix} has an empty AS path; name at least the origin AS")
        origin = route.as_path[-1]
        if any(first <= origin <= last for first, last in _BOGUS):
            raise UsageError(
                f"lab route {route.prefix}: AS{origin} is reserved, so pyasn would "
                "not read it as the origin; use a public AS number"
            )
        if COLLECTOR_AS in route.as_path:
            raise UsageError(
                f"lab route {route.prefix}: AS{COLLECTOR_AS} is the collector itself, "
                "which drops such a path as a loop; use another AS number"
            )


def split_families(routes: Iterable[Announcement]) -> tuple[list[Announcement], list[Announcement]]:
    """Return the IPv4 and the IPv6 routes."""
    v4: list[Announcement] = []
    v6: list[Announcement] = []
    for route in routes:
        (v6 if ":" in route.prefix else v4).append(route)
    return v4, v6


def route_server_config(routes: Sequence[Announcement], server: Host, collector: Host) -> str:
    """Return the BIRD configuration of the announcing router."""
    lines = [
        "log stderr all;",
        f"router id {server.v4};",
        "protocol device {}",
    ]
    for family, family_routes in zip(("ipv4", "ipv6"), split_families(routes), strict=True):
        lines += [f"protocol static announced_{family} {{", f"  {family};"]
        for route in family_routes:
            # prepend adds an AS in front, so the origin is first.
            path = " ".join(f"bgp_path.prepend({asn});" for asn in reversed(route.as_path))
            lines.append(f"  route {route.prefix} blackhole {{ {path} }};")
        lines.append("}")
    lines += _session("ipv4", server.v4, ROUTE_SERVER_AS, collector.v4, COLLECTOR_AS, server=True)
    lines += _session("ipv6", server.v6, ROUTE_SERVER_AS, collector.v6, COLLECTOR_AS, server=True)
    return "\n".join(lines) + "\n"


def collector_config(collector: Host, server: Host) -> str:
    """Return the BIRD configuration of the collector, which only learns; tables `master4` and `master6`."""
    lines = [
        "log stderr all;",
        f"router id {collector.v4};",
        "protocol device {}",
    ]
    lines += _session("ipv4", collector.v4, COLLECTOR_AS, server.v4, ROUTE_SERVER_AS, server=False)
    lines += _session("ipv6", collector.v6, COLLECTOR_AS, server.v6, ROUTE_SERVER_AS, server=False)
    return "\n".join(lines) + "\n"


def _session(family: str, address: str, asn: int, peer: str, peer_asn: int, *, server: bool) -> list[str]:
    # The two routers may be any distance apart, hence multihop; the short times are for a quick start.
    lines = [
        f"protocol bgp session_{family} {{",
        f"  local {address} as {asn};",
        f"  neighbor {peer} as {peer_asn};",
        "  multihop;",
        "  strict bind yes;",
        "  connect delay time 1; connect retry time 2; error wait time 1, 4;",
    ]
    if server:
        lines.append("  rs client;")
        lines.append(f"  {family} {{ import none; export where source = RTS_STATIC; }};")
    else:
        lines.append(f"  {family} {{ import all; export none; }};")
    return [*lines, "}"]


def routing_services(
    routes: Sequence[Announcement], state: Path, server: Host, collector: Host
) -> list[Service]:
    """Write both configurations under state/bird and return the two routers as services.

    BIRD's control sockets are reached by names relative to state/bird, because the path of a Unix socket may
    not exceed 107 bytes.
    """
    bird = program("bird", "bird2")
    check_routes(routes)
    folder = state / "bird"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "server.conf").write_text(route_server_config(routes, server, collector))
    (folder / "collector.conf").write_text(collector_config(collector, server))
    return [
        Service(
            name=f"bird-{role}",
            host=router.name,
            argv=(bird, "-f", "-c", f"{role}.conf", "-s", f"{role}.ctl", "-P", f"{role}.pid"),
            ready=r"\bStarted$",
            cwd=folder,
        )
        for role, router in (("server", server), ("collector", collector))
    ]
