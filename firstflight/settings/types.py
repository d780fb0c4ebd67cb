"""The types of setting values, each with the check and error message."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from datetime import date as Date
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo

from firstflight.host_names import NotAName, normalise
from firstflight.layout import OWN_NAMES

IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

# Host names that the prober accepts.
HOST_NAME = re.compile(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*")

MAX_CONTACT_BYTES = 500

# Networks that can only be in a lab; targets there need no contact (interfaces.md, --allow-net).
LAB_NETWORKS = tuple(
    ipaddress.ip_network(net)
    for net in (
        "127.0.0.0/8",
        "::1/128",
        "10.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "fc00::/7",
        "198.18.0.0/15",
        "2001:db8::/32",
    )
)


# Queries per second to a resolver outside LAB_NETWORKS by default; the same in firstflight-resolve.
RESOLVER_RATE = 200.0
# Maximum number of queries that firstflight-resolve sends to check that a resolver answers, before it sends
# queries for a name.
CHECK_ATTEMPTS = 3


def is_ours(address: str) -> bool:
    """Return whether an address is in LAB_NETWORKS, so that no other operator can have it."""
    return any(ipaddress.ip_address(address) in network for network in LAB_NETWORKS)


def _absolute(path: Path, info: ValidationInfo) -> Path:
    base = (info.context or {}).get("base", Path.cwd())
    return Path(base, path.expanduser()).resolve()


def _existing(path: Path, info: ValidationInfo) -> Path:
    # `check_files` is off for the settings of an old run, because its files may no longer exist.
    if (info.context or {}).get("check_files", True) and not path.is_file():
        raise ValueError(f"no such file: {path}")
    return path


def _lab_network(text: str) -> str:
    network = ipaddress.ip_network(text)
    if not any(_is_inside(network, lab) for lab in LAB_NETWORKS):
        raise ValueError(
            f"{text} is not inside loopback, RFC 1918, ULA, 198.18.0.0/15 or 2001:db8::/32; "
            "probing elsewhere needs a contact instead"
        )
    return text


def _scan_network(text: str) -> str:
    """Validate an IPv4 network to scan. A network larger than /8 has no single owner."""
    network = ipaddress.ip_network(text)
    if not isinstance(network, ipaddress.IPv4Network):
        raise ValueError(f"{text} is no IPv4 network: ZMap only scans IPv4")
    if network.prefixlen < 8:
        raise ValueError(f"{text} is larger than /8: name the networks that you own or may scan")
    return str(network)


def _is_inside(network: IPNetwork, outer: IPNetwork) -> bool:
    if isinstance(network, ipaddress.IPv4Network):
        return isinstance(outer, ipaddress.IPv4Network) and network.subnet_of(outer)
    return isinstance(outer, ipaddress.IPv6Network) and network.subnet_of(outer)


def is_in(network: str, outer: Iterable[str]) -> bool:
    """Return whether a network is inside one of the networks `outer`."""
    return any(_is_inside(ipaddress.ip_network(network), ipaddress.ip_network(text)) for text in outer)


def _port_range(text: str) -> str:
    match = re.fullmatch(r"(\d{1,5})-(\d{1,5})", text)
    first, last = (int(match[1]), int(match[2])) if match else (0, 0)
    if not (1024 <= first < last <= 65535 and last - first < 1024):
        raise ValueError(f"{text!r} is not FIRST-LAST, two to 1024 ports between 1024 and 65535")
    return text


def _address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError as error:
        raise ValueError("is neither an IPv4 nor an IPv6 address") from error


def _weighted_resolver(text: str) -> str:
    """Validate ADDRESS or ADDRESS#PORT, optionally with `,weight=N`. Adds a missing port."""
    host, _, weight = text.partition(",weight=")
    address, _, port = host.partition("#")
    try:
        share, number = float(weight or 1), int(port or 53)
    except ValueError:
        share, number = 0.0, 0
    if not (0 < share <= 1000 and 0 < number < 65536):
        raise ValueError("is not like 192.0.2.53, 192.0.2.53#5353 or 192.0.2.53,weight=2")
    return f"{_address(address)}#{number}" + (f",weight={weight}" if weight else "")


def _day(value: object) -> object:
    """Parse a date from text. --set and the stored form are text; TOML has dates."""
    if not isinstance(value, str):
        return value
    try:
        return Date.fromisoformat(value)
    except ValueError as error:
        raise ValueError("is not a date: write it as YYYY-MM-DD") from error


def _not_in_future(day: Date, info: ValidationInfo) -> Date:
    """Reject a day in the future, which has no list or table. Stored settings are not checked."""
    if (info.context or {}).get("check_files", True) and day > latest_day():
        raise ValueError(f"{day} is in the future: choose a day that is over")
    return day


def latest_day() -> Date:
    """Return the latest date that is today somewhere on Earth."""
    return (datetime.now(UTC) + timedelta(hours=14)).date()


def _contact(text: str) -> str:
    """Validate the contact by the prober's rules: it is sent whole, in a packet of 1200 bytes."""
    if len(text.encode()) > MAX_CONTACT_BYTES:
        raise ValueError(f"is longer than {MAX_CONTACT_BYTES} bytes")
    if not text.isprintable():
        raise ValueError("has control characters or more than one line")
    return text


def _name(text: str) -> str:
    try:
        return normalise(text)
    except NotAName as error:
        raise ValueError(str(error)) from error


def _store_url(url: str) -> str:
    """Reject a URL with a password, because settings are stored with the run and in the store."""
    if not re.fullmatch(r"chdb:.+|clickhouses?://.+", url):
        raise ValueError("is not the URL of a store: write chdb:PATH or clickhouse://HOST:PORT/DB")
    scheme, _, rest = url.partition("://")
    user = rest.split("/")[0].rpartition("@")[0]
    if scheme.startswith("clickhouse") and ":" in user:
        raise ValueError(
            "must not have a password, which the run would store: give the URL in the environment "
            "(FIRSTFLIGHT_STORE), or the password in a file (?password_file=FILE)"
        )
    return url


def _vantage_name(name: str) -> str:
    if name in OWN_NAMES:
        raise ValueError(f"a vantage point cannot be called {name}: a run has a file of that name")
    return name


PathSetting = Annotated[Path, AfterValidator(_absolute)]
FileSetting = Annotated[Path, AfterValidator(_absolute), AfterValidator(_existing)]
PortRange = Annotated[str, AfterValidator(_port_range)]
Address = Annotated[str, AfterValidator(_address)]
WeightedResolver = Annotated[str, AfterValidator(_weighted_resolver)]
LabNetwork = Annotated[str, AfterValidator(_lab_network)]
ScanNetwork = Annotated[str, AfterValidator(_scan_network)]
HostName = Annotated[str, AfterValidator(_name)]
Contact = Annotated[str, AfterValidator(_contact)]
StoreUrl = Annotated[str, AfterValidator(_store_url)]
DateSetting = Annotated[Date, BeforeValidator(_day), Field(strict=True), AfterValidator(_not_in_future)]
VantageName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,30}$"), AfterValidator(_vantage_name)]
Interface = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.@-]{1,15}$")]
Command = tuple[str, ...]
Rate = Annotated[float, Field(gt=0, le=10_000_000)]
"""Per second, up to the prober's maximum."""
Limit = Annotated[float, Field(ge=0, le=10_000_000)]
"""Per second; 0: no limit."""

DAY_S = 86_400
YEAR_S = 366 * DAY_S
