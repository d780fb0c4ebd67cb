"""Routing tables as collectors write them: which origin each network has.

Each row tests a kind of table that was once read wrongly. To add a case from the field, add a row with the
file (small, in `data/`) or its records, the origins, and the source of the expectation.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

import pytest

from crawler.routing import rib
from firstflight.errors import InputError

SEQUENCE, SET, CONFED_SEQUENCE, CONFED_SET = 2, 1, 3, 4


class RoutingCase(NamedTuple):
    """A table, and the origins by network or null if the table is refused."""

    kind: str
    table: bytes
    origins: dict[str, int] | None
    source: str


def data(name: str) -> bytes:
    """Return a file's content."""
    return Path(__file__).with_name("data").joinpath(name).read_bytes()


def path(*segments: tuple[int, list[int]]) -> bytes:
    """Return a route's attributes: ORIGIN, and AS_PATH with four bytes a number (RFC 6396 4.3.4)."""
    written = b"".join(
        bytes([kind, len(numbers)]) + b"".join(number.to_bytes(4) for number in numbers)
        for kind, numbers in segments
    )
    return b"\x40\x01\x01\x00\x40\x02" + bytes([len(written)]) + written


def record(subtype: int, network: str, *routes: bytes, has_id: bool = False, family: str = "") -> bytes:
    """Return a record of TABLE_DUMP_V2 (RFC 6396 4.3). `network`: bytes in hexadecimal, `/`, bits.

    `has_id`: its routes have path identifiers (RFC 8050 4.1). `family`: of a generic record, in hexadecimal.
    """
    prefix, _, bits = network.partition("/")
    body = bytes(4) + bytes.fromhex(family) + bytes([int(bits)]) + bytes.fromhex(prefix)
    body += struct.pack(">H", len(routes))
    for number, attributes in enumerate(routes):
        body += bytes(6) + (number.to_bytes(4) if has_id else b"")
        body += struct.pack(">H", len(attributes)) + attributes
    return struct.pack(">IHHI", 1_700_000_000, 13, subtype, len(body)) + body


def to(origin: int) -> bytes:
    """Return a route's attributes by AS 1 and 2 to an origin."""
    return path((SEQUENCE, [1, 2, origin]))


RFC_8050, RFC_5065, GENERIC = "RFC 8050 4.1", "RFC 5065 4", "RFC 6396 4.3.3"
NET = "198.51.100.0/24"
NETWORK = "RFC 4632 3.1: the bits behind a prefix are no part of it"
OURS = "docs/inputs.md"
CASES = [
    RoutingCase("addpath alone", data("10-addpath_alone.mrt"), {NET: 3}, RFC_8050),
    RoutingCase(
        "addpath for most",
        data("10-addpath_for_most.mrt"),
        {"198.51.0.0/16": 3, NET: 5},
        RFC_8050,
    ),
    RoutingCase("host bits", data("10-host_bits.mrt"), {"198.51.96.0/20": 3}, NETWORK),
    RoutingCase(
        "twice by host bits",
        data("10-twice_by_host_bits.mrt"),
        {NET: 3, "198.51.100.0/23": 4},
        f"{NETWORK}; the first counts ({OURS})",
    ),
    RoutingCase(
        "confederation first",
        data("10-confed_first.mrt"),
        {NET: 3},
        RFC_5065,
    ),
    RoutingCase("several paths", record(8, "c63364/24", to(3), to(4), has_id=True), {NET: 3}, RFC_8050),
    RoutingCase(
        "IPv6 paths", record(10, "20010db8/32", to(3), to(4), has_id=True), {"2001:db8::/32": 3}, RFC_8050
    ),
    RoutingCase(
        "in both forms",
        record(2, "c63364/24", to(3)) + record(8, "c63364/24", to(4), has_id=True),
        {NET: 3},
        f"the first counts ({OURS})",
    ),
    RoutingCase("cut within an identifier", record(8, "c63364/24", b"", has_id=True)[:-8], None, RFC_8050),
    RoutingCase(
        "multicast paths", record(2, "0a/8", to(3)) + record(9, "0b/8", to(4)), {"10.0.0.0/8": 3}, OURS
    ),
    RoutingCase(
        "generic IPv4",
        record(6, "c63364/24", to(3), family="000101"),
        {NET: 3},
        GENERIC,
    ),
    RoutingCase(
        "generic IPv6",
        record(6, "20010db8/32", to(3), family="000201"),
        {"2001:db8::/32": 3},
        GENERIC,
    ),
    RoutingCase(
        "generic VPN",
        record(2, "0a/8", to(3)) + record(6, "0b/8", to(4), family="000180"),
        {"10.0.0.0/8": 3},
        OURS,
    ),
    RoutingCase(
        "generic paths", record(12, "c63364/24", to(3), family="000101"), None, "RFC 8050 4.2, and OpenBGPD"
    ),
    RoutingCase("host bits of IPv6", record(4, "20010db8ff/33", to(3)), {"2001:db8:8000::/33": 3}, NETWORK),
    RoutingCase("host bits of /1", record(2, "ff/1", to(3)), {"128.0.0.0/1": 3}, NETWORK),
    *(
        RoutingCase(f"path of {kinds}", record(2, "0a/8", path(*segments)), origins, RFC_5065)
        for kinds, segments, origins in (
            ("sets in front", [(CONFED_SET, [64512]), (SEQUENCE, [1, 3])], {"10.0.0.0/8": 3}),
            (
                "two in front",
                [(CONFED_SEQUENCE, [64512]), (CONFED_SET, [64513]), (SEQUENCE, [1]), (SET, [4, 3])],
                {"10.0.0.0/8": 3},
            ),
            ("a confederation alone", [(CONFED_SEQUENCE, [3])], {}),
            ("a confederation at its end", [(SEQUENCE, [1, 2]), (CONFED_SEQUENCE, [3])], {}),
        )
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.kind)
def test_origins_of_a_table(case: RoutingCase, tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(case.table)
    database = tmp_path / "database"
    if case.origins is None:
        with pytest.raises(InputError, match=r"the routing table|is cut short"):
            rib.convert([tmp_path / "table"], database, "a test")
        return
    about = rib.convert([tmp_path / "table"], database, "a test")
    lines = [line.split("\t") for line in database.read_text("ascii").splitlines() if line[0] != ";"]
    assert {prefix: int(origin) for prefix, origin in lines} == case.origins, (case.source, about)
