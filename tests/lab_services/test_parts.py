"""Parts of the services that do not need a running program."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from firstflight.errors import InputError, UsageError
from lab.as_data.mrt import count_prefixes, records, retimed
from lab.as_data.routeviews import last_table_time, publish, rib_path
from lab.as_data.routing import check_routes
from lab.declared.model import Announcement, DnsRecord, Host
from lab.hosts.dns import locks_a_file, served_serial, write_zones, zone_of

SERVER = Host("dns", "dns", "198.18.0.53", "2001:db8:0:53::1")


def rib_record(subtype: int, body: bytes, at: int = 1_700_000_000) -> bytes:
    return at.to_bytes(4) + b"\x00\x0d" + subtype.to_bytes(2) + len(body).to_bytes(4) + body


def entry(originated: int, attributes: bytes) -> bytes:
    return b"\x00\x01" + originated.to_bytes(4) + len(attributes).to_bytes(2) + attributes


INDEX = rib_record(1, bytes.fromhex("c6120050 0000 0000"))
TWO_ENTRIES = rib_record(
    2, bytes.fromhex("00000000 14 c61210 0002") + entry(1_690_000_000, b"abcde") + entry(1_699_999_000, b"")
)
V6 = rib_record(4, bytes.fromhex("00000001 30 20010db80016 0001") + entry(1_600_000_000, b"x"))


def test_retimed_moves_headers_and_caps_the_entries() -> None:
    dump = INDEX + TWO_ENTRIES + V6
    moved = retimed(dump, 1_695_000_000)
    at = 1_695_000_000
    assert moved == (
        rib_record(1, bytes.fromhex("c6120050 0000 0000"), at)
        + rib_record(
            2, bytes.fromhex("00000000 14 c61210 0002") + entry(1_690_000_000, b"abcde") + entry(at, b""), at
        )
        + rib_record(4, bytes.fromhex("00000001 30 20010db80016 0001") + entry(1_600_000_000, b"x"), at)
    )
    assert count_prefixes(moved) == 2


def test_a_dump_cut_off_anywhere_is_refused() -> None:
    dump = INDEX + TWO_ENTRIES
    record_ends = {0, len(INDEX), len(dump)}
    for end in range(len(dump) + 1):
        if end in record_ends:
            assert len(list(records(dump[:end]))) == sorted(record_ends).index(end)
        else:
            with pytest.raises(InputError, match="is truncated in"):
                count_prefixes(dump[:end])


@pytest.mark.parametrize("dump", [TWO_ENTRIES, INDEX + INDEX, b"\0\0\0\0\x00\x10\x00\x04\0\0\0\0"])
def test_an_invalid_table_is_refused(dump: bytes) -> None:
    with pytest.raises(InputError, match="not a TABLE_DUMP_V2"):
        count_prefixes(dump)


@pytest.mark.parametrize(
    ("routes", "why"),
    [
        ([Announcement("198.18.16.1/20", (3257, 13335))], "host bits"),
        ([Announcement("198.18.16.0/20", (3257, 13335)), Announcement("198.18.16.0/20", (3257,))], "twice"),
        ([Announcement("198.18.16.0/20", ())], "empty AS path"),
        ([Announcement("198.18.16.0/20", (3257, 64511))], "AS64511 is reserved"),
        ([Announcement("2001:db8::/48", (3257, 4_200_000_000))], "is reserved"),
        ([Announcement("198.18.16.0/20", (6447, 13335))], "the collector itself"),
    ],
)
def test_routes_that_are_not_visible_are_refused(routes: list[Announcement], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        check_routes(routes)


def test_only_changed_zones_get_a_new_serial(tmp_path: Path) -> None:
    first = [DnsRecord("a.one.test", "A", 60, "198.18.1.1"), DnsRecord("a.two.test", "A", 60, "198.18.1.2")]
    other = [DnsRecord("a.one.test", "A", 60, "198.18.1.9"), first[1]]
    assert set(write_zones(tmp_path, first, {"broken.test"}, SERVER)) == {
        "",
        "lab.test",
        "one.test",
        "two.test",
    }
    assert write_zones(tmp_path, first, {"broken.test"}, SERVER) == []
    assert write_zones(tmp_path, other, {"broken.test"}, SERVER) == ["one.test"]
    assert write_zones(tmp_path, first, {"broken.test"}, SERVER) == ["one.test"]
    assert served_serial((tmp_path / "one.test.zone").read_text()) == 3
    assert served_serial((tmp_path / "two.test.zone").read_text()) == 1


def test_names_that_cannot_be_served_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="two labels"):
        zone_of("localhost")
    with pytest.raises(UsageError, match="cannot be a CNAME"):
        write_zones(tmp_path, [DnsRecord("one.test", "CNAME", 60, "a.two.test")], set(), SERVER)
    with pytest.raises(UsageError, match="declared broken"):
        write_zones(tmp_path, [DnsRecord("a.one.test", "A", 60, "198.18.1.1")], {"one.test"}, SERVER)


def test_tables_are_named_after_the_last_even_hour_in_utc() -> None:
    assert last_table_time(datetime(2024, 8, 7, 1, 59, 59, tzinfo=UTC)) == datetime(2024, 8, 7, tzinfo=UTC)
    assert last_table_time(datetime(2024, 8, 7, 14, 0, tzinfo=UTC)) == datetime(2024, 8, 7, 14, tzinfo=UTC)
    berlin = timezone(timedelta(hours=2))
    at = last_table_time(datetime(2024, 8, 7, 1, 30, tzinfo=berlin))
    assert rib_path("bgpdata", at) == Path("bgpdata/2024.08/RIBS/rib.20240806.2200.bz2")


def test_directory_pages_list_files_without_partial_ones(tmp_path: Path) -> None:
    folder = tmp_path / "bgpdata" / "2024.08" / "RIBS"
    folder.mkdir(parents=True)
    (folder / "rib.20240807.0200.bz2.part").write_bytes(b"")
    publish(INDEX + TWO_ENTRIES, tmp_path, "bgpdata", datetime(2024, 8, 7, tzinfo=UTC))
    page = (folder / "index.html").read_text()
    assert 'href="rib.20240807.0000.bz2"' in page
    assert 'href="/bgpdata/2024.08/"' in page
    assert ".part" not in page and "index.html" not in page
    assert 'href="bgpdata/"' in (tmp_path / "index.html").read_text()


@pytest.mark.parametrize(
    ("version", "locks"),
    [
        ("BIND 9.18.49-1~deb12u3-Debian (Extended Support Version) <id:>\n", True),
        ("BIND 9.20.30-1~deb13u1-Debian (Stable Release) <id:>\n", False),
        ("", False),
    ],
)
def test_only_an_older_bind_has_a_lock_that_the_lab_prevents(version: str, locks: bool) -> None:
    assert locks_a_file(version) is locks
