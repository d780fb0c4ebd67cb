"""MRT tables to origins: real RouteViews tables, compared with pyasn's own parser, and damaged ones."""

from __future__ import annotations

import bz2
import gzip
import io
import ipaddress
import struct
from collections.abc import Iterator
from pathlib import Path

import pyasn
import pytest
from pyasn import mrtx

from crawler.routing import rib
from firstflight.errors import InputError, UsageError

from .conftest import RIB_4, RIB_6


def whole_records(path: Path) -> bytes:
    """The published start of a table, up to the end of its last complete record."""
    data = bytearray()
    decompressor = bz2.BZ2Decompressor()
    data += decompressor.decompress(path.read_bytes())
    at = 0
    while at + 12 <= len(data):
        end = at + 12 + int.from_bytes(data[at + 8 : at + 12])
        if end > len(data):
            break
        at = end
    return bytes(data[:at])


@pytest.fixture(scope="module")
def table_4() -> bytes:
    return whole_records(RIB_4)


@pytest.fixture(scope="module")
def table_6() -> bytes:
    return whole_records(RIB_6)


@pytest.mark.parametrize("which", ["table_4", "table_6"])
def test_origins_are_pyasns(which: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    data: bytes = request.getfixturevalue(which)
    (tmp_path / "rib.bz2").write_bytes(bz2.compress(data, 1))
    table = rib.RoutingTable()
    rib.read(tmp_path / "rib.bz2", table)
    expected = mrtx.parse_mrt_file(io.BytesIO(data))
    assert table.origins.keys() == expected.keys()
    assert len(table.origins) > 6000
    sets = 0
    for prefix, origin in expected.items():
        if isinstance(origin, set):
            sets += 1
            assert table.origins[prefix] == min(origin)
        else:
            assert table.origins[prefix] == origin
    assert table.counts["as_sets"] == sets > 0
    assert table.counts["records"] == len(table.origins) + sum(
        table.counts[key] for key in ("repeated", "no_origin", "default_routes")
    )


def test_both_families_in_one_database(table_4: bytes, table_6: bytes, tmp_path: Path) -> None:
    table = rib.RoutingTable()
    for name, data in (("a.gz", gzip.compress(table_4, 1)), ("b", table_6)):
        (tmp_path / name).write_bytes(data)
        rib.read(tmp_path / name, table)
    assert table.dumped_at is not None
    assert table.dumped_at.isoformat() == "2014-05-23T06:00:00+00:00"
    rib.write(table, tmp_path / "db", "a test")
    database = pyasn.pyasn(str(tmp_path / "db"))
    assert database.lookup("1.0.0.1") == (15169, "1.0.0.0/24")
    assert 0 < table.prefixes_v6 < len(table.origins)
    for prefix in list(table.origins)[::7]:
        address = prefix.partition("/")[0]
        assert database.lookup(address)[0] == longest_match(table.origins, address)


def longest_match(origins: dict[str, int], address: str) -> int | None:
    """Return the origin of the longest prefix that contains the address, by trying all."""
    ip = ipaddress.ip_address(address)
    for bits in range(ip.max_prefixlen, 0, -1):
        network = str(ipaddress.ip_network((ip, bits), strict=False))
        if network in origins:
            return origins[network]
    return None


@pytest.mark.parametrize("path", [RIB_4, RIB_6], ids=["ipv4", "ipv6"])
def test_published_starts_are_cut_short_and_refused(path: Path) -> None:
    with pytest.raises(InputError, match=r"firstMB\.bz2 is cut short: it ends after byte 1\d{7}") as caught:
        rib.read(path, rib.RoutingTable())
    assert caught.value.exit_status == 3


def _cuts(data: bytes) -> Iterator[int]:
    first = 12 + int.from_bytes(data[8:12])
    yield from (1, 11, 12, 13, first - 1, first + 1, first + 11, first + 12, first + 13)


def test_cut_anywhere_is_refused_with_the_offset(table_4: bytes, tmp_path: Path) -> None:
    first = 12 + int.from_bytes(table_4[8:12])
    for cut in _cuts(table_4):
        (tmp_path / "cut").write_bytes(table_4[:cut])
        record = 0 if cut < first else first
        says = (
            rf"ends after byte {cut} .*starts at byte {record};" if cut >= 12 else f"ends after {cut} bytes"
        )
        with pytest.raises(InputError, match=says):
            rib.read(tmp_path / "cut", rib.RoutingTable())


def test_damage_is_refused(table_4: bytes, tmp_path: Path) -> None:
    packed = bytearray(bz2.compress(table_4[:2_000_000], 1))
    packed[len(packed) // 2] ^= 0xFF
    (tmp_path / "x.bz2").write_bytes(packed)
    with pytest.raises(InputError, match="is damaged after byte"):
        rib.read(tmp_path / "x.bz2", rib.RoutingTable())
    zipped = bytearray(gzip.compress(table_4[:2_000_000], 1))
    zipped[len(zipped) // 2] ^= 0xFF
    (tmp_path / "x.gz").write_bytes(zipped)
    with pytest.raises(InputError, match=r"is damaged after byte|cut short|not an MRT|cannot be parsed"):
        rib.read(tmp_path / "x.gz", rib.RoutingTable())


def record(kind: int, subtype: int, body: bytes) -> bytes:
    return struct.pack(">IHHI", 1_400_000_000, kind, subtype, len(body)) + body


def route(prefix: bytes, bits: int, as_path: bytes) -> bytes:
    """Return a RIB_IPV4_UNICAST record (RFC 6396 4.3.2) with one entry that has ORIGIN and AS_PATH."""
    attributes = b"\x40\x01\x01\x00" + b"\x40\x02" + bytes([len(as_path)]) + as_path
    entry = struct.pack(">HIH", 0, 1_400_000_000, len(attributes)) + attributes
    return record(13, 2, struct.pack(">IB", 0, bits) + prefix + struct.pack(">H", 1) + entry)


def sequence(*numbers: int, kind: int = 2) -> bytes:
    return bytes([kind, len(numbers)]) + b"".join(number.to_bytes(4) for number in numbers)


@pytest.mark.parametrize(
    ("as_path", "origin", "count"),
    [
        (sequence(3356, 13335), 13335, None),
        (sequence(3356, 400000), 400000, None),
        (sequence(3356, 65001), 3356, None),  # a private number is no origin
        (sequence(3356) + sequence(20, 10, kind=1), 10, "as_sets"),
        (b"", None, "no_origin"),
        (sequence(65001), None, "no_origin"),
    ],
)
def test_which_as_is_the_origin(
    as_path: bytes, origin: int | None, count: str | None, tmp_path: Path
) -> None:
    (tmp_path / "rib").write_bytes(route(b"\x0a\x00\x01", 24, as_path))
    table = rib.RoutingTable()
    rib.read(tmp_path / "rib", table)
    assert table.origins.get("10.0.1.0/24") == origin
    assert (table.counts[count] if count else table.counts.total()) == 1


def test_default_routes_repetitions_and_other_records_are_counted(tmp_path: Path) -> None:
    (tmp_path / "rib").write_bytes(
        route(b"", 0, sequence(1, 2))
        + route(b"\x0a", 8, sequence(1, 3))
        + route(b"\x0a", 8, sequence(1, 4))
        + record(13, 3, b"")  # multicast
    )
    table = rib.RoutingTable()
    rib.read(tmp_path / "rib", table)
    assert table.origins == {"10.0.0.0/8": 3}
    assert table.counts == {"records": 3, "default_routes": 1, "repeated": 1, "skipped_type_13_3": 1}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b"<html><body>404 Not Found</body></html>" * 9, r"is not an MRT table dump: at byte 0"),
        (record(16, 4, bytes(20)), "this is BGP traffic, not a table"),
        (record(13, 2, bytes(3)), "record at byte 0 that cannot be parsed"),
        (record(13, 2, struct.pack(">IB", 0, 200) + bytes(40)), "record at byte 0 that cannot be parsed"),
        (route(b"\x0a", 8, b"\x07\x01\x00\x00\x00\x01"), "record at byte 0 that cannot be parsed"),
        (route(b"\x0a", 8, sequence(1, 2)[:-1]), "record at byte 0 that cannot be parsed"),
    ],
)
def test_what_is_no_table_is_refused(content: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / "rib").write_bytes(content)
    with pytest.raises(InputError, match=says):
        rib.read(tmp_path / "rib", rib.RoutingTable())


def test_no_such_table(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read the routing table .*No such file"):
        rib.read(tmp_path / "none", rib.RoutingTable())
