"""Location of the edge that answered, from the response's header fields.

scanner/native/handshake/src/cdn/edge.rs implements the same rules for the handshake engine.
tests/cdn/edges.json tests both implementations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from firstflight.cdn.methods import BLANKS

# Maximum length of a value to inspect. Genuine lists of servers are shorter.
MAX_VALUE = 4096

_AIRPORT = re.compile(r"[A-Z]{3}")
_POP = re.compile(r"([A-Z]{3})[0-9]+(-[A-Z0-9]+)?")
_REGION = re.compile(r"([a-z]{3})[0-9]{1,2}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{1,31}")


def location(fields: Iterable[tuple[str, str]]) -> str | None:
    """Return the location from the first readable field of FIELDS in the response; `None` without one.

    The location is a three-letter IATA code if the field's documentation promises one, else the CDN's own
    term. `fields`: (name, value) pairs of the response, names in lower case. Only the first of repeated names
    is used.
    """
    first: dict[str, str] = {}
    for name, value in fields:
        if name in FIELDS:
            first.setdefault(name, value)
    for name, read in FIELDS.items():
        value = first.get(name, "")
        code = read(value.strip(BLANKS)) if len(value) <= MAX_VALUE else None
        if code is not None:
            return code
    return None


def _ray(value: str) -> str | None:
    """Read `8f3a1b2c3d4e5f60-FRA`."""
    return _airport(value.rpartition("-")[2]) if "-" in value else None


def _pop(value: str) -> str | None:
    """Read `HAM50-P2`: the code is typically an airport code."""
    match = _POP.fullmatch(value)
    return match[1] if match else _name(value)


def _served_by(value: str) -> str | None:
    """Read `cache-lga21950-LGA, cache-fra-eddf8230057-FRA`: the last entry is the nearest."""
    last = value.rpartition(",")[2].strip(BLANKS)
    return _airport(last.rpartition("-")[2]) if last.startswith("cache-") else None


def _vercel(value: str) -> str | None:
    """Read `fra1::iad1::x7c9k-1769280933622-449e98882f00`: the first region is the nearest."""
    region, separator, _ = value.partition("::")
    match = _REGION.fullmatch(region)
    return match[1].upper() if match and separator else None


def _bunny(value: str) -> str | None:
    """Read `BunnyCDN-DE1-1047`."""
    parts = value.split("-")
    return _name(parts[1]) if len(parts) == 3 and parts[0] == "BunnyCDN" else None


def _airport(text: str) -> str | None:
    return text if _AIRPORT.fullmatch(text) else None


def _name(text: str) -> str | None:
    return text if _NAME.fullmatch(text) else None


# In order of precedence. Sources: Cloudflare, "Cloudflare HTTP headers"; AWS, "Standard logging
# (access logs)", x-edge-location; Fastly, "X-Served-By"; Vercel, "Request headers", x-vercel-id; CDN77,
# "Headers added by CDN77"; KeyCDN, "CDN Server Locations"; bunny.net, "Find your PoP".
FIELDS: dict[str, Callable[[str], str | None]] = {
    "cf-ray": _ray,
    "x-amz-cf-pop": _pop,
    "x-served-by": _served_by,
    "x-vercel-id": _vercel,
    "x-77-pop": _name,
    "x-edge-location": _name,
    "server": _bunny,
}
