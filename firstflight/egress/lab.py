"""Allows contact with the lab's addresses only inside the lab.

In the lab, 198.18.0.0/15 and 2001:db8::/32 stand for the Internet. Elsewhere, a packet to these addresses
takes the default route into a foreign network. The lab's namespaces have a mark (docs/interfaces.md). Without
the mark, such an address may be contacted only if the route to it is `lo`.

`enforce` installs an audit hook (sys.addaudithook) for all libraries that use Python's sockets. The hook
checks each address that Python passes to the kernel. It does not cover C libraries with their own sockets.
The Rust programs check addresses themselves.
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Any

from firstflight.egress import rtnetlink
from firstflight.errors import UsageError

MARK = "firstflight-lab"
"""Alias of `lo` in the namespaces of the lab and of tests."""

RANGES = ("198.18.0.0/15", "2001:db8::/32")

# Prefixes with an IPv4 address in the last four bytes: IPv4-compatible (RFC 4291 2.5.5.1), NAT64 (RFC 6052,
# RFC 8215).
_TRANSLATED = ("::/96", "64:ff9b::/96", "64:ff9b:1::/48")

RESOLV_CONF = Path("/etc/resolv.conf")

# Audit events (docs.python.org, audit events table) with an address as second argument.
_TO_ADDRESS = {"socket.connect", "socket.sendto", "socket.sendmsg"}
# Audit events with a name, which the C library resolves with this machine's name servers.
_LOOK_UP = {"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo"}

_enforced = False


class NotTheLab(UsageError):
    """The program was about to contact a lab address from outside the lab; nothing was sent (exit 2)."""


def enforce() -> None:
    """Apply `check` to all sockets of this process from now on. Idempotent; cannot be undone."""
    global _enforced
    if not _enforced:
        _enforced = True
        sys.addaudithook(_audit)


def is_lab() -> bool:
    """Return whether this network namespace has the lab's mark."""
    try:
        return rtnetlink.loopback_alias() == MARK
    except OSError:
        return False


def check(address: str) -> None:
    """Raise NotTheLab if this IP address is a lab address and this namespace is outside the lab."""
    ip = _of_lab(address)
    if ip is None or is_lab() or rtnetlink.goes_by_loopback(ip):
        return
    raise NotTheLab(
        f"{ip} is an address of the lab, and this is not the lab: do it from there (firstflight lab exec "
        f"HOST ...), or mark the namespace of a test (ip link set lo alias {MARK}); nothing was sent"
    )


def _of_lab(address: str) -> str | None:
    """Return the address, without IPv4 mapping and zone, if it or an IPv4 address in it is a lab address."""
    import ipaddress  # imported late: most commands contact nobody

    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return None
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    contacted = [ip]
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.sixtofour is not None:
            contacted.append(ip.sixtofour)
        if any(ip in ipaddress.ip_network(network) for network in _TRANSLATED):
            contacted.append(ipaddress.IPv4Address(ip.packed[-4:]))
    networks = [ipaddress.ip_network(network) for network in RANGES]
    inside = any(candidate in network for candidate in contacted for network in networks)
    return str(ip) if inside else None


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event in _TO_ADDRESS:
        sock, address = arguments
        if sock.family in (socket.AF_INET, socket.AF_INET6) and isinstance(address, tuple):
            _check_host(address[0])
    elif event in _LOOK_UP and not _is_address(arguments[0]):
        _check_name_servers()


def _check_host(host: object) -> None:
    if isinstance(host, bytes | bytearray):
        host = host.decode("ascii", "replace")
    if not isinstance(host, str):
        raise NotTheLab(f"{host!r} is neither an address nor a name; nothing was sent")
    if _is_address(host):
        check(host)
    else:  # a name, which the socket resolves: check all its addresses
        for info in socket.getaddrinfo(host, None):
            check(str(info[4][0]))


def _is_address(host: object) -> bool:
    """Return whether this host needs no name lookup."""
    if isinstance(host, bytes | bytearray):
        host = host.decode("ascii", "replace")
    if not isinstance(host, str):
        return host is None
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host.partition("%")[0])
        except (OSError, ValueError):
            continue
        return True
    return host in ("", "localhost", "<broadcast>")


def _check_name_servers() -> None:
    try:
        lines = RESOLV_CONF.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        words = line.split()
        if len(words) > 1 and words[0] == "nameserver":
            check(words[1])
