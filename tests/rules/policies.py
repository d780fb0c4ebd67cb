"""Random policies, lines of lists, addresses and names, close to where decisions change."""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from firstflight.egress.permitted import SPECIAL_NETWORKS, Address, Network

ALLOWABLE = ("127.0.0.0/8", "10.0.0.0/8", "192.168.0.0/16", "fc00::/7", "198.18.0.0/15", "2001:db8::/32")
NOT_ALLOWABLE = ("8.8.8.0/24", "0.0.0.0/0", "10.0.0.0/7", "10.0.0.1/8", "10.0.0.0/255.0.0.0", "lo", "::/0")
NAMES = ("example.org", "www.example.org", "xn--bcher-kva.example", "_x.test", "localhost", "163.com")
# Pieces of lines. Random sequences of them are often almost addresses, ranges or names.
PIECES = (
    *("10.1.2.3", "10.1.2.0", "9.9.9.9", "255.255.255.255", "0.0.0.0", "2600::1", "::ffff:9.9.9.9", "::"),
    *("/8", "/24", "/32", "/33", "/128", "/129", "/0", "/08", "/4294967295", "-", " - ", "-9", "-24", "-300"),
    *(" ", "\t", "#", "# text", "\r", ".", "..", "*.", "*", "example.org", "EXAMPLE", "as64500", "0x1f"),
    *("1", "01", "255", "256", ":", "%1", "ü", "\u212a", "\u0661", "x" * 63, "x" * 64, ".in-addr.arpa"),
    *("_", "-a", "xn--", "a.b", ".1", "\xa0", "\ufeff", "\x1c", "/", "localhost", "fd00::", ".com"),
    ".ip6.arpa",
)


@dataclass(frozen=True)
class Lists:
    """The parts of a policy, as the program takes them."""

    allow: Sequence[str] = ()
    block: str = ""
    optout: str = ""
    own: Sequence[str] = ()
    servers: Sequence[str] = ()
    addresses: Sequence[Address] = field(default=(), compare=False)
    """Addresses that the lists name."""

    def question(self) -> dict[str, Any]:
        """Return the question that chooses this policy."""
        parts = asdict(self)
        parts.pop("addresses")
        return {"policy": parts}


def special_networks() -> list[Network]:
    """Return all networks of the file, whatever their kind."""
    lines = SPECIAL_NETWORKS.read_text(encoding="utf-8").splitlines()
    return [ipaddress.ip_network(line.split(",")[0]) for line in lines if not line.startswith("#")]


def line(numbers: random.Random) -> str:
    """Return a line in a list, which often cannot be read."""
    return "".join(numbers.choices(PIECES, k=numbers.randint(0, 5)))


def lists(numbers: random.Random) -> Lists:
    """Return a policy. Some are refused for a network or a line."""
    special = special_networks()
    addresses = [near(numbers, special) for _ in range(numbers.randint(0, 12))]
    entries = [entry(numbers, address) for address in addresses]
    cut = numbers.randint(0, len(entries))
    block = [*entries[:cut], "# a comment", ""]
    optout = [*entries[cut:], *numbers.sample(NAMES, numbers.randint(0, 3))]
    allow = numbers.sample(ALLOWABLE, numbers.randint(0, 3))
    fault = numbers.randrange(30)
    if fault == 0:
        allow.append(numbers.choice(NOT_ALLOWABLE))
    elif fault < 3:
        (block if fault == 1 else optout).insert(0, line(numbers).replace("\n", ""))
    end = numbers.choice(("\n", "\r\n"))
    own = [str(near(numbers, special)) for _ in range(numbers.randint(0, 2))]
    servers = [str(near(numbers, special)) for _ in range(numbers.randint(0, 2))]
    named = [*addresses, *map(ipaddress.ip_address, (*own, *servers))]
    return Lists(allow, end.join(block), end.join(optout), own, servers, named)


def entry(numbers: random.Random, address: Address) -> str:
    """Return a line that lists an address, and perhaps others around it."""
    length = numbers.randint(address.max_prefixlen // 2, address.max_prefixlen)
    last = min(int(address) + numbers.randint(0, 1000), (1 << address.max_prefixlen) - 1)
    of_number = type(address)
    return numbers.choice(
        (f"{address}", f"{address}/{length}", f"{address}-{of_number(last)}", f"\t{address} # for me")
    )


def near(numbers: random.Random, networks: Sequence[Network]) -> Address:
    """Return any address, or one at the edge of a network; in IPv6, perhaps with an IPv4 address inside."""
    if numbers.randrange(4) == 0:
        return ipaddress.IPv4Address(numbers.getrandbits(32))
    network = numbers.choice(networks)
    edge = numbers.choice((network.network_address, network.broadcast_address))
    number = (int(edge) + numbers.randint(-2, 2)) % (1 << network.max_prefixlen)
    address: Address = type(edge)(number)
    if address.version == 4 and numbers.randrange(4) == 0:
        inside = int(address)
        forms = (0xFFFF << 32 | inside, inside, 0x64FF9B << 96 | inside, 0x2002 << 112 | inside << 80)
        address = ipaddress.IPv6Address(numbers.choice(forms))
    return address


def close_to(numbers: random.Random, addresses: Sequence[Address], networks: Sequence[Network]) -> Address:
    """Return an address near a listed address, or as `near`."""
    if not addresses or numbers.randrange(2):
        return near(numbers, networks)
    address = numbers.choice(addresses)
    number = int(address) + numbers.choice((-1, 0, 0, 1, 256, 1000))
    return type(address)(number % (1 << address.max_prefixlen))


def name(numbers: random.Random) -> str:
    """Return a name that is listed, lies below a listed name, or resembles one."""
    text = numbers.choice(("", "", *NAMES, "test", "org", "xample.org"))
    text = (
        numbers.choice(("", "", "www.", "a.b.", "x", ".")) + text + numbers.choice(("", "", ".", "..", ".x"))
    )
    return text.upper() if numbers.randrange(4) == 0 else text
