"""`firstflight-rib`: origins of real and synthetic tables compared with pyasn's, and damaged tables."""

from __future__ import annotations

import bz2
import gzip
import io
import ipaddress
import struct
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyasn
import pytest
from pyasn import mrtx

from crawler.routing import rib
from firstflight.errors import InputError
from firstflight.system import binaries

from .conftest import RIB_4, RIB_6


@dataclass
class RibOutput:
    """Output of the program: origins in database order, counts, time."""

    origins: dict[str, int]
    counts: Counter[str]
    dumped_at: str
    prefixes_v6: int


def read(*paths: Path) -> RibOutput:
    database = paths[0].with_name("db")
    about = rib.convert(paths, database, "a test")
    rows = [line.split("\t") for line in database.read_text("ascii").splitlines() if line[0] != ";"]
    assert about["prefixes_v4"] + about["prefixes_v6"] == len(rows)
    origins = {prefix: int(origin) for prefix, origin in rows}
    return RibOutput(origins, Counter(about["counts"]), about["dumped_at"], about["prefixes_v6"])


def whole_records(path: Path) -> bytes:
    """Return the published start of a table, up to the end of the last complete record."""
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
    table = read(tmp_path / "rib.bz2")
    expected = mrtx.parse_mrt_file(io.BytesIO(data))
    assert list(table.origins) == list(expected)
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
    for name, data in (("a.gz", gzip.compress(table_4, 1)), ("b", table_6)):
        (tmp_path / name).write_bytes(data)
    table = read(tmp_path / "a.gz", tmp_path / "b")
    assert table.dumped_at == "2014-05-23T06:00:00+00:00"
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
def test_published_starts_are_cut_short_and_refused(path: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"firstMB\.bz2 is cut short: it ends after byte 1\d{7}") as caught:
        rib.convert([path], tmp_path / "db", "a test")
    assert caught.value.exit_status == 3
    assert list(tmp_path.iterdir()) == []


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
            read(tmp_path / "cut")


def test_damage_is_refused(table_4: bytes, tmp_path: Path) -> None:
    packed = bytearray(bz2.compress(table_4[:2_000_000], 1))
    packed[len(packed) // 2] ^= 0xFF
    (tmp_path / "x.bz2").write_bytes(packed)
    with pytest.raises(InputError, match="is damaged after byte"):
        read(tmp_path / "x.bz2")
    zipped = bytearray(gzip.compress(table_4[:2_000_000], 1))
    zipped[len(zipped) // 2] ^= 0xFF
    (tmp_path / "x.gz").write_bytes(zipped)
    with pytest.raises(InputError, match=r"is damaged after byte|cut short|not an MRT|cannot be parsed"):
        read(tmp_path / "x.gz")


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
        (sequence(3356, 65001), 3356, None),  # a private AS number is not an origin
        (sequence(3356) + sequence(20, 10, kind=1), 10, "as_sets"),
        (b"", None, "no_origin"),
        (sequence(65001), None, "no_origin"),
        (sequence(3356) + sequence(65001, kind=1), 3356, None),  # nor is a set of private AS numbers
        (sequence(20, kind=1), None, "no_origin"),  # a path must start with a sequence
        (
            sequence(3356) + sequence(65001, kind=3),
            None,
            "no_origin",
        ),  # a confederation's segment, which must not leave the confederation
    ],
)
def test_which_as_is_the_origin(
    as_path: bytes, origin: int | None, count: str | None, tmp_path: Path
) -> None:
    (tmp_path / "rib").write_bytes(route(b"\x0a\x00\x01", 24, as_path))
    table = read(tmp_path / "rib")
    assert table.origins.get("10.0.1.0/24") == origin
    assert (table.counts[count] if count else table.counts.total()) == 1


def test_default_routes_repetitions_and_other_records_are_counted(tmp_path: Path) -> None:
    (tmp_path / "rib").write_bytes(
        route(b"", 0, sequence(1, 2))
        + route(b"\x0a", 8, sequence(1, 3))
        + route(b"\x0a", 8, sequence(1, 4))
        + record(13, 3, b"")  # multicast
    )
    table = read(tmp_path / "rib")
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
def test_an_invalid_table_is_refused(content: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / "rib").write_bytes(content)
    with pytest.raises(InputError, match=says):
        read(tmp_path / "rib")


def test_no_such_table(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read the routing table .*No such file"):
        read(tmp_path / "none")


def old_route(prefix: bytes, bits: int, as_path: bytes, status: int = 1) -> bytes:
    """Return a TABLE_DUMP record (RFC 6396 4.2) with AS numbers of two bytes."""
    attributes = b"\x40\x01\x01\x00" + b"\x50\x02" + len(as_path).to_bytes(2) + as_path
    size = len(prefix)
    head = struct.pack(">HH", 0, 0) + prefix + struct.pack(">BBI", bits, status, 0) + bytes(size)
    return record(12, 1 if size == 4 else 2, head + struct.pack(">HH", 7, len(attributes)) + attributes)


def route_6(prefix: bytes, bits: int, as_path: bytes) -> bytes:
    made = bytearray(route(prefix, bits, as_path))
    made[7] = 4
    return bytes(made)


MADE = (
    route(b"\x0a\x00\x01", 24, sequence(3356, 13335))
    + route(b"\x0a\x00\x07", 22, sequence(3356, 13335))  # has host bits
    + route(b"\x0a\x00\x01", 24, sequence(3356, 16509))
    + route_6(b"\x20\x01\x0d\xb8", 32, sequence(3356) + sequence(30, 20, kind=1))
    + route_6(bytes(12) + b"\x0a\x00\x00\x01", 128, sequence(1, 2))  # ::10.0.0.1
    + route_6(bytes(10) + b"\xff\xff\x0a\x00\x00\x01", 128, sequence(1, 2))
    + route_6(bytes(15) + b"\x01", 128, sequence(1, 2))
    + route_6(bytes.fromhex("20010db8000000010000000000010001"), 128, sequence(1, 2))
    + route_6(bytes.fromhex("20010db8000100010000000100010001"), 128, sequence(1, 2))
    + old_route(b"\xc0\x00\x02\x00", 24, b"\x02\x02\x0d\x1c\x00\x07")
    + old_route(b"\x20\x01" + bytes(14), 16, b"\x02\x01\x0d\x1c")
)


def test_made_tables_are_read_as_pyasn_reads_them(tmp_path: Path) -> None:
    (tmp_path / "rib").write_bytes(MADE)
    expected = {
        _network(prefix): min(origin) if isinstance(origin, set) else origin
        for prefix, origin in mrtx.parse_mrt_file(io.BytesIO(MADE)).items()
    }
    found = read(tmp_path / "rib").origins
    assert {_network(prefix): origin for prefix, origin in found.items()} == expected
    assert "::10.0.0.1/128" in found and len(found) == 10


def _network(prefix: str) -> str:
    """Return a prefix without host bits, which pyasn keeps."""
    return str(ipaddress.ip_network(prefix, strict=False))


@pytest.mark.parametrize(
    "packed",
    [
        bz2.compress(MADE[:100]) + bz2.compress(MADE[100:]),  # as parallel compressors write
        bz2.compress(MADE) + b"padding",
        gzip.compress(MADE[:100]) + gzip.compress(MADE[100:]),
        gzip.compress(MADE) + bytes(512),
    ],
    ids=["bz2 streams", "bz2 padded", "gzip members", "gzip padded"],
)
def test_all_streams_of_a_file_are_read(packed: bytes, tmp_path: Path) -> None:
    (tmp_path / "rib").write_bytes(packed)
    assert len(read(tmp_path / "rib").origins) == 10


@pytest.mark.parametrize(
    "packed",
    [
        bz2.compress(MADE)[:-5],
        bz2.compress(MADE) + bz2.compress(MADE)[:-5],
        gzip.compress(MADE)[:-5],
        gzip.compress(MADE) + b"no gzip",
    ],
    ids=["bz2", "second bz2 stream", "gzip", "behind gzip"],
)
def test_compressed_tables_that_are_cut_are_refused(packed: bytes, tmp_path: Path) -> None:
    (tmp_path / "rib").write_bytes(packed)
    with pytest.raises(InputError, match=r"is cut short|is damaged after byte"):
        read(tmp_path / "rib")
    assert not (tmp_path / "db").exists()


def test_the_program_is_used_like_the_others(tmp_path: Path) -> None:
    program = str(binaries.find(rib.PROGRAM))
    for argv, status, says in (
        (["--help"], 0, "Example: firstflight-rib"),
        (["--version"], 0, "firstflight-rib "),
        ([], 2, "firstflight-rib: "),
        ([str(tmp_path / "rib"), "--out", str(tmp_path / "none" / "db")], 3, "cannot write"),
    ):
        (tmp_path / "rib").write_bytes(MADE)
        done = subprocess.run([program, *argv], capture_output=True, text=True, check=False)
        assert done.returncode == status and says in done.stdout + done.stderr
        assert status == 0 or done.stderr.count("\n") == 1
