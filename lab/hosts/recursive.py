"""The lab's second DNS scenario: unbound as the recursive resolver of a host of kind `resolver`.

It sends all queries to the lab's name server (dns.py), because its hints name only this server for the
root. It follows CNAMEs across zones itself, and caches answers for their TTL. Its files are in
STATE/recursive.
"""

from __future__ import annotations

from pathlib import Path

from lab.declared.model import Host, Service
from lab.hosts.dns import SERVER_NAME
from lab.system.programs import program

PACKAGE = "unbound"


def config(folder: Path, resolver: Host) -> str:
    """Return unbound.conf: all paths inside `folder`, every client allowed, control on loopback."""
    server = [
        f"interface: {resolver.v4}",
        f"interface: {resolver.v6}",
        "access-control: 0.0.0.0/0 allow",
        "access-control: ::0/0 allow",
        "do-daemonize: no",
        'username: ""',
        'chroot: ""',
        'pidfile: ""',
        f'directory: "{folder}"',
        "use-syslog: no",
        'logfile: ""',
        "verbosity: 1",
        # The lab's zones are not signed.
        'module-config: "iterator"',
        f'root-hints: "{folder}/root.hints"',
        # The lab's root has no delegations. Its server holds all zones and needs queries with whole names.
        "qname-minimisation: no",
        # unbound answers for these zones itself by default. The lab's names are below the first.
        'local-zone: "test." nodefault',
        'local-zone: "18.198.in-addr.arpa." nodefault',
        # The first address must be the same for every client, as in dns.py.
        "rrset-roundrobin: no",
        "minimal-responses: yes",
        "num-threads: 1",
        "msg-cache-size: 8m",
        "rrset-cache-size: 8m",
    ]
    control = [
        "control-enable: yes",
        "control-interface: 127.0.0.1",
        "control-use-cert: no",
    ]
    lines = [
        "server:",
        *(f"  {line}" for line in server),
        "remote-control:",
        *(f"  {line}" for line in control),
    ]
    return "\n".join(lines) + "\n"


def resolver_service(state: Path, resolver: Host, server: Host) -> Service:
    """Write STATE/recursive and return unbound on `resolver` as a service; it asks `server`."""
    folder = state / "recursive"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "root.hints").write_text(
        f". 3600 IN NS {SERVER_NAME}.\n"
        f"{SERVER_NAME}. 3600 IN A {server.v4}\n"
        f"{SERVER_NAME}. 3600 IN AAAA {server.v6}\n"
    )
    (folder / "unbound.conf").write_text(config(folder, resolver))
    argv = (program("unbound", PACKAGE), "-d", "-c", str(folder / "unbound.conf"))
    return Service(name="unbound", host=resolver.name, argv=argv, ready=r"info: start of service", cwd=folder)


def flush_command(state: Path, resolver: Host) -> tuple[str, list[str]]:
    """Return (host, argv) of the command that makes unbound forget all answers, for a new epoch."""
    path = state / "recursive" / "unbound.conf"
    return resolver.name, [program("unbound-control", PACKAGE), "-c", str(path), "flush_zone", "."]
