"""Queries the kernel about the network namespace of this thread (rtnetlink(7)). Sends no packet.

A netlink socket belongs to the namespace of the thread that opens it, while /sys/class/net shows the
namespace in which sysfs was mounted. This module has few imports, because every command may run it.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator

_LOOPBACK = 1  # the number of `lo` in every namespace (LOOPBACK_IFINDEX)
_REQUEST = 1
_DUMP = 0x300  # NLM_F_DUMP
_ERROR, _DONE = 2, 3
_GETLINK, _GETADDR, _GETROUTE = 18, 22, 26
_IFLA_IFALIAS = 20
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_TABLE_LOCAL = 255
_RTA_DST, _RTA_OIF = 1, 4
_RTN_UNICAST, _RTN_LOCAL = 1, 2


def loopback_alias() -> str | None:
    """Return the alias of `lo` (`ip link set lo alias TEXT`) or `None`. OSError if the kernel refuses."""
    body = _ask(_GETLINK, struct.pack("=BxHiII", socket.AF_UNSPEC, 0, _LOOPBACK, 0, 0))
    for kind, data in _attributes(body[16:]):
        if kind == _IFLA_IFALIAS:
            return data.rstrip(b"\0").decode("utf-8", "replace")
    return None


def goes_by_loopback(address: str) -> bool:
    """Return whether packets to this IP address leave through `lo`. False without a route."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    packed = socket.inet_pton(family, address)
    route = struct.pack("=BBBBBBBBI", family, len(packed) * 8, 0, 0, 0, 0, 0, 0, 0)
    try:
        body = _ask(_GETROUTE, route + struct.pack("=HH", 4 + len(packed), _RTA_DST) + packed)
    except OSError:
        return False
    device = next((data for kind, data in _attributes(body[12:]) if kind == _RTA_OIF), b"")
    return body[7] in (_RTN_UNICAST, _RTN_LOCAL) and device == struct.pack("=I", _LOOPBACK)


def own_networks() -> list[tuple[bytes, int]]:
    """Return the networks that belong to this namespace: packed address and prefix length in bits.

    These are the interfaces' addresses, and the local routes (table 255). Raise OSError if the kernel
    refuses.
    """
    networks: list[tuple[bytes, int]] = []
    for body in _dump(_GETADDR, bytes(8)):
        attributes = dict(_attributes(body[8:]))
        # On a point-to-point link, IFA_ADDRESS is the peer's address.
        address = attributes.get(_IFA_LOCAL, attributes.get(_IFA_ADDRESS))
        if address is not None:
            networks.append((address, 8 * len(address)))
    for family in (socket.AF_INET, socket.AF_INET6):
        for body in _dump(_GETROUTE, struct.pack("=BBBBBBBBI", family, 0, 0, 0, _TABLE_LOCAL, 0, 0, 0, 0)):
            length, table, route_type = body[1], body[4], body[7]
            address = dict(_attributes(body[12:])).get(_RTA_DST)
            if table == _TABLE_LOCAL and route_type == _RTN_LOCAL and address is not None:
                networks.append((address, length))
    return networks


def _dump(kind: int, body: bytes) -> Iterator[bytes]:
    """Request a table from the kernel. Yield the body of each message in the answer."""
    with socket.socket(
        socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE
    ) as kernel:
        kernel.send(struct.pack("=IHHII", 16 + len(body), kind, _REQUEST | _DUMP, 0, 0) + body)
        while True:
            data = kernel.recv(1 << 16)
            while len(data) >= 16:
                length, answered = struct.unpack_from("=IH", data)
                if answered == _DONE:
                    return
                if answered == _ERROR:
                    code = -struct.unpack_from("=i", data, 16)[0]
                    raise OSError(code, os.strerror(code))
                yield data[16:length]
                data = data[-(-length // 4) * 4 :]


def _ask(kind: int, body: bytes) -> bytes:
    """Send a request. Return the body of the single message in the kernel's answer."""
    with socket.socket(
        socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE
    ) as kernel:
        kernel.send(struct.pack("=IHHII", 16 + len(body), kind, _REQUEST, 0, 0) + body)
        answer = kernel.recv(1 << 16)
    length, answered = struct.unpack_from("=IH", answer)
    if answered in (_ERROR, _DONE):
        code = -struct.unpack_from("=i", answer, 16)[0] if answered == _ERROR else 0
        raise OSError(code, os.strerror(code))
    return answer[16:length]


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the kind and the content of each struct rtattr."""
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        if length < 4:
            return
        yield kind, data[4:length]
        data = data[-(-length // 4) * 4 :]
