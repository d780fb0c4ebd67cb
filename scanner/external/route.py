"""The kernel's route to a network, for ZMap, because ZMap's own look-up may hang."""

from __future__ import annotations

import json
import subprocess
from typing import Any, NamedTuple

from firstflight.errors import UsageError


class KernelRoute(NamedTuple):
    """Interface, source address, and Ethernet address of the next hop (`None` if the kernel lacks it)."""

    interface: str
    source: str
    gateway_mac: str | None


def to(address: str) -> KernelRoute:
    """Return the kernel's route to an IPv4 address. Sends no packet. Raise UsageError without a route."""
    try:
        (route,) = _ip("route", "get", address)
        interface, source, hop = route["dev"], route["prefsrc"], route.get("gateway", address)
        neighbours = _ip("neighbour", "show", hop, "dev", interface)
    except (OSError, ValueError, KeyError, subprocess.CalledProcessError) as error:
        raise UsageError(f"this machine has no route to {address}; nothing was sent") from error
    macs = [entry["lladdr"] for entry in neighbours if "lladdr" in entry]
    return KernelRoute(interface, source, macs[0] if macs else None)


def _ip(*arguments: str) -> list[dict[str, Any]]:
    output = subprocess.run(["ip", "-json", *arguments], check=True, capture_output=True).stdout
    entries: list[dict[str, Any]] = json.loads(output or b"[]")
    return entries
