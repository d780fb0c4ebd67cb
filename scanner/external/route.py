"""The kernel's route to a network, for ZMap, because ZMap's own look-up may hang."""

from __future__ import annotations

import json
import subprocess
from typing import Any, NamedTuple

from firstflight.errors import UsageError


class KernelRoute(NamedTuple):
    """Interface, source address, and the Ethernet address of the next hop.

    The last is `None` on loopback and point-to-point interfaces, which have no such addresses.
    """

    interface: str
    source: str
    gateway_mac: str | None


def to(address: str, source: str | None = None) -> KernelRoute:
    """Return the kernel's route to an IPv4 address, for packets from `source` if given. Sends no packet.

    Raise UsageError without a route, and if the kernel does not know a necessary Ethernet address.
    """
    of_source = () if source is None else ("from", source)
    try:
        (route,) = _ip("route", "get", address, *of_source)
        interface, hop = route["dev"], route.get("gateway", address)
        source = source or str(route["prefsrc"])
        neighbours = _ip("neighbour", "show", hop, "dev", interface)
        (link,) = _ip("link", "show", "dev", interface)
    except (OSError, ValueError, KeyError, subprocess.CalledProcessError) as error:
        words = f"{address} from {source}" if of_source else address
        raise UsageError(f"this machine has no route to {words}; nothing was sent") from error
    macs = [entry["lladdr"] for entry in neighbours if "lladdr" in entry]
    if not macs and not {"LOOPBACK", "POINTOPOINT"}.intersection(link["flags"]):
        raise UsageError(
            f"the kernel does not know the Ethernet address of {hop} on {interface}, which ZMap needs: "
            f"send a packet to it (`ping {hop}`), or give `scan` the option --gateway-mac; nothing was sent"
        )
    return KernelRoute(interface, source, macs[0] if macs else None)


def _ip(*arguments: str) -> list[dict[str, Any]]:
    output = subprocess.run(["ip", "-json", *arguments], check=True, capture_output=True).stdout
    entries: list[dict[str, Any]] = json.loads(output or b"[]")
    return entries
