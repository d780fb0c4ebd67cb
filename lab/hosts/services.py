"""The lab's infrastructure services: names, lists and routing table, like those on the real Internet.

`services` writes their files below STATE and returns the programs to run with their hosts. An epoch changes
only names: `apply_epoch` writes the zones, then `epoch_commands` make the server load them.
"""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

from firstflight.errors import UsageError
from lab.as_data import as2org_host, routeviews, routing
from lab.declared import file_sites, mirror_sites
from lab.declared.internet import Internet
from lab.declared.model import DnsRecord, Host, HostKind, Service
from lab.hosts import crux_host, dns, file_host, list_host, mirror_host, recursive, web
from lab.hosts.certificates import Authority, issue, make_authority

ARCHIVE_HOST = "archive.routeviews.org"
WEB_NAMES = (list_host.HOST, ARCHIVE_HOST, crux_host.HOST, as2org_host.HOST)
FIRST_EPOCH = 1


def services(internet: Internet, state: Path) -> list[Service]:
    """Write all configuration and content for epoch 1 and return the services, in the order to start them.

    These are named, unbound (host of kind `resolver`, optional), the announcing BIRD (host `dns`), nginx, the
    collecting BIRD and the program that publishes BIRD's tables (host `web`), the two file servers (host
    `files`, optional), and the servers of hosts of kind `mirror`.
    Raises UsageError if a program is missing or the Internet cannot be served this way.
    """
    state = state.resolve()
    names, site = _only_host(internet, "dns"), _only_host(internet, "web")
    today = datetime.now(UTC).date()
    for left_over in ("dns", "recursive", "web", "bird", "files", mirror_host.FOLDER):
        shutil.rmtree(state / left_over, ignore_errors=True)

    lists = list_host.lists([domain for _, domain in internet.names], today)
    lists_root, archive_root = state / "web" / "tranco", state / "web" / "routeviews"
    list_host.write_tree(lists_root, lists)
    archive_root.mkdir(parents=True, exist_ok=True)
    crux_root, as2org_root = state / "web" / "crux", state / "web" / "as2org"
    crux_host.write_tree(crux_root, [domain for _, domain in internet.names])
    as2org_host.write_tree(as2org_root, _organisations(internet))
    authority = make_authority(state)
    sites = [
        _site(
            authority,
            list_host.HOST,
            lists_root,
            before=list_host.nginx_map(lists),
            locations=list_host.nginx_locations(lists),
        ),
        _site(authority, ARCHIVE_HOST, archive_root),
        _site(authority, crux_host.HOST, crux_root),
        _site(authority, as2org_host.HOST, as2org_root),
    ]

    files = [
        service
        for host in internet.hosts
        if host.kind == "files"
        for service in file_host.services(state, host.name, file_sites.sites(), authority)
    ]
    files += [
        service
        for host in internet.hosts
        if host.kind == "mirror"
        for service in mirror_host.services(
            state, host.name, mirror_sites.sites_of_host(host.name), authority
        )
    ]
    v4, v6 = routing.split_families(internet.routes)
    server, collector = routing.routing_services(internet.routes, state, names, site)
    return [
        dns.dns_service(state, names, _records(internet, FIRST_EPOCH, site), _broken(internet)),
        *(recursive.resolver_service(state, resolver, names) for resolver in _resolvers(internet)),
        server,
        web.nginx_service(state, site, sites),
        collector,
        routeviews.publisher(
            state, archive_root, site.name, (len(v4), len(v6)), [list_host.MAIN_DAY, list_host.OLD_DAY]
        ),
        *files,
    ]


def apply_epoch(internet: Internet, state: Path, epoch: int) -> None:
    """Write the zones of an epoch (1 to `internet.epochs`); served once `epoch_commands` have run."""
    names, site = _only_host(internet, "dns"), _only_host(internet, "web")
    records = _records(internet, epoch, site)
    dns.write_zones(state.resolve() / "dns" / "zones", records, _broken(internet), names)


def epoch_commands(internet: Internet, state: Path) -> list[tuple[str, list[str]]]:
    """Return (host, argument list) of the commands to run, in order, after `apply_epoch`.

    Each exits with status 0 when the new zones are served, else with another status and one sentence on
    stderr.
    """
    state = state.resolve()
    flushes = [recursive.flush_command(state, resolver) for resolver in _resolvers(internet)]
    return [dns.reload_command(state, _only_host(internet, "dns")), *flushes]


def _site(
    authority: Authority, name: str, root: Path, *, before: str = "", locations: str = ""
) -> web.VirtualHost:
    certificate = issue(authority, name, [name])
    return web.VirtualHost(name, root, certificate.chain, certificate.key, before, locations)


def _organisations(internet: Internet) -> dict[int, str]:
    """Return the organisation of each origin AS of the lab's routes: `Lab CDN`, one per CDN of the truth."""
    cdn_of = {endpoint.asn: endpoint.cdn for endpoint in internet.endpoints if endpoint.asn is not None}
    return {
        route.as_path[-1]: f"Lab {cdn_of.get(route.as_path[-1]) or 'Others'}" for route in internet.routes
    }


def _resolvers(internet: Internet) -> list[Host]:
    resolvers = [host for host in internet.hosts if host.kind == "resolver"]
    if len(resolvers) > 1:
        raise UsageError(f"the lab has {len(resolvers)} hosts of kind 'resolver'; declare at most one")
    return resolvers


def _only_host(internet: Internet, kind: HostKind) -> Host:
    hosts = [host for host in internet.hosts if host.kind == kind]
    if len(hosts) != 1:
        raise UsageError(f"the lab has {len(hosts)} hosts of kind {kind!r}; declare exactly one")
    return hosts[0]


def _records(internet: Internet, epoch: int, site: Host) -> list[DnsRecord]:
    """Return all records of an epoch, including the real names of the list and routing-table hosts."""
    records = internet.records(epoch)
    for name in WEB_NAMES:
        records += [DnsRecord(name, "A", 3600, site.v4), DnsRecord(name, "AAAA", 3600, site.v6)]
    if any(host.kind == "files" for host in internet.hosts):
        records += file_host.records(file_sites.sites())
    for host in internet.hosts:
        if host.kind == "mirror":
            records += file_host.records(mirror_sites.sites_of_host(host.name))
    return records


def _broken(internet: Internet) -> set[str]:
    return {dns.zone_of(name) for name in internet.servfail}
