"""The way to a network as the kernel has it, for ZMap, whose own look-up may hang."""

from __future__ import annotations

import json
import subprocess
from typing import Any, NamedTuple

from firstflight.errors import UsageError


class Route(NamedTuple):
    """Interface, source address, Ethernet address of the next hop (None if the kernel has not learnt it)."""

    interface: str
    source: str
    gateway_mac: str | None


def to(address: str) -> Route:
    """Ask the kernel for the way to an IPv4 address; nothing is sent. UsageError if there is none."""
    try:
        (route,) = _ip("route", "get", address)
        interface, source, hop = route["dev"], route["prefsrc"], route.get("gateway", address)
        neighbours = _ip("neighbour", "show", hop, "dev", interface)
    except (OSError, ValueError, KeyError, subprocess.CalledProcessError) as error:
        raise UsageError(f"this machine has no route to {address}; nothing was sent") from error
    known = [entry["lladdr"] for entry in neighbours if "lladdr" in entry]
    return Route(interface, source, known[0] if known else None)


def _ip(*arguments: str) -> list[dict[str, Any]]:
    output = subprocess.run(["ip", "-json", *arguments], check=True, capture_output=True).stdout
    found: list[dict[str, Any]] = json.loads(output or b"[]")
    return found
