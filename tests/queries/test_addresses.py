"""address_info() in SQL returns the same AS as pyasn for any address in the routing table of the day."""

from __future__ import annotations

import ipaddress
import json
import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyasn
import pytest

from store import open_store
from store.load import loader
from tests.store.rows import write

pytestmark = pytest.mark.usefixtures("tables")

FIRST = date(2026, 1, 5)
CDN_OF = {13335: "Cloudflare", 16509: "Amazon"}
ORIGINS = [13335, 16509, 3320, 7, 8]


def at(day: date, hour: int = 4) -> int:
    return int(datetime(day.year, day.month, day.day, hour, tzinfo=UTC).timestamp()) * 10**9


def load_table(folder: Path, run: str, day: date, routes: dict[str, int], hour: int = 4) -> loader.Result:
    """Load a run's routing table: prefix -> origin AS."""
    (folder / run).mkdir(exist_ok=True)
    (folder / run / "manifest.json").write_text(json.dumps({"id": run}))
    rows = [
        {"table_at": at(day, hour), "prefix": prefix, "asn": asn, "cdn": CDN_OF.get(asn, "Others")}
        for prefix, asn in routes.items()
    ]
    (result,) = loader.load_files([write(folder / run / "as_data" / "as_prefix.parquet", rows, "as_prefix")])
    return result


def load_holders(folder: Path, run: str, day: date, holders: dict[int, tuple[str | None, ...]]) -> None:
    """Load AS holders: AS -> (name of the AS, organisation, country)."""
    rows = [
        {"table_at": at(day), "asn": asn, "as_name": name, "organisation": organisation, "country": country}
        | {"as2org_file": "x.txt", "org_id": None, "registry": None}
        for asn, (name, organisation, country) in holders.items()
    ]
    loader.load_files([write(folder / run / "as_data" / "as_org.parquet", rows, "as_org")])


def ask(expression: str) -> Any:
    with open_store() as store:
        return store.rows(f"SELECT {expression} AS v")[0]["v"]


def prefixes(rng: random.Random) -> Iterator[str]:
    """Return nested prefixes of both families."""
    while True:
        if rng.random() < 0.6:
            length = rng.choice([15, 16, 18, 20, 21, 24, 28, 32])
            number = int(ipaddress.ip_address("198.18.0.0")) + rng.randrange(1 << 17)
            yield str(ipaddress.ip_network((number, length), strict=False))
        else:
            length = rng.choice([32, 36, 40, 48, 56, 64, 128])
            number = (
                int(ipaddress.ip_address("2001:db8::")) + (rng.randrange(1 << 16) << 80) + rng.randrange(4)
            )
            yield str(ipaddress.ip_network((number, length), strict=False))


def test_every_address_has_on_every_day_the_origin_that_pyasn_finds(tmp_path: Path) -> None:
    rng = random.Random(4)
    source = prefixes(rng)
    pool = sorted({next(source) for _ in range(400)})
    tables: dict[date, dict[str, int]] = {}
    routes = {prefix: rng.choice(ORIGINS) for prefix in rng.sample(pool, 200)}
    for week in range(5):
        day = FIRST + timedelta(days=7 * week + rng.randrange(3))
        tables[day] = dict(routes)
        load_table(tmp_path, f"2026010{week}T000000Z-aaaaaa", day, routes)
        # Some are withdrawn, some added, some move to another AS.
        for prefix in rng.sample(sorted(routes), 40):
            del routes[prefix]
        routes |= {prefix: rng.choice(ORIGINS) for prefix in rng.sample(pool, 60)}
    addresses = [str(ipaddress.ip_network(prefix)[rng.choice([0, -1])]) for prefix in pool]
    addresses += ["198.17.255.255", "198.20.0.0", "2001:db9::", "::", "255.255.255.255"]

    checked = 0
    with open_store() as store:
        for offset in range(-1, 35):
            day = FIRST + timedelta(days=offset)
            known = [table for since, table in tables.items() if since <= day]
            lines = [
                f"{prefix}\t{asn}" for prefix, asn in (known[-1] if known else {"192.0.2.0/32": 1}).items()
            ]
            database = pyasn.pyasn(None, ipasn_string="\n".join(lines))
            found = store.rows(
                "SELECT ip, address_asn(ip, day) AS asn, address_cdn(ip, day) AS cdn FROM "
                f"(SELECT arrayJoin({addresses}) AS ip, toDate('{day}') AS day)"
            )
            for row in found:
                expected = database.lookup(row["ip"])[0] if known else None
                cdn = None if expected is None else CDN_OF.get(expected, "Others")
                assert (row["asn"], row["cdn"]) == (expected, cdn), (row["ip"], day)
                checked += expected is not None
    assert checked > 5_000


def test_days_differ_within_one_query(tmp_path: Path) -> None:
    load_table(tmp_path, "a", date(2026, 1, 1), {"198.18.0.0/16": 7, "198.18.1.0/24": 13335})
    load_table(tmp_path, "b", date(2026, 2, 1), {"198.18.0.0/16": 7})
    load_table(tmp_path, "c", date(2026, 3, 1), {"198.18.0.0/16": 16509})
    with open_store() as store:
        rows = store.rows(
            "SELECT address_asn('198.18.1.9', sent_at) AS asn FROM (SELECT arrayJoin(["
            "'2025-12-31 23:59:59', '2026-01-01 00:00:00', '2026-01-31 23:59:59', '2026-02-01 00:00:00', "
            "'2026-03-01 12:00:00', '2149-06-06 00:00:00'])::DateTime64(9, 'UTC') AS sent_at)"
        )
    assert [row["asn"] for row in rows] == [None, 13335, 13335, 7, 16509, 16509]


def test_organisation_country_and_name_as_of_a_day(tmp_path: Path) -> None:
    days = [date(2026, 1, 1), date(2026, 2, 1)]
    for run, day in zip("ab", days, strict=True):
        load_table(tmp_path, run, day, {"198.18.0.0/16": 7, "2001:db8::/32": 8})
    load_holders(tmp_path, "a", days[0], {7: ("SEVEN", "Seven Ltd", "DE"), 8: ("EIGHT", None, None)})
    load_holders(tmp_path, "b", days[1], {7: ("SEVEN", "Eight's \\ Ltd", "DE")})
    named = {"asn": 7, "as_name": "SEVEN", "organisation": "Seven Ltd", "country": "DE", "cdn": "Others"}
    assert ask("address_info('198.18.0.1', '2026-01-15')") == named
    assert ask("address_info('198.18.0.1', '2026-02-15')") == named | {"organisation": "Eight's \\ Ltd"}
    assert ask("address_info('2001:db8::1', '2026-01-15')") == {
        "asn": 8,
        "as_name": "EIGHT",
        "organisation": None,
        "country": None,
        "cdn": "Others",
    }
    # The newer file lacks AS8.
    assert ask("address_info('2001:db8::1', '2026-02-15').as_name") is None
    nothing = dict.fromkeys(named)
    for address in ("'9.9.9.9'", "''", "'no address'", "CAST(NULL AS Nullable(String))"):
        assert ask(f"address_info({address}, '2026-02-15')") == nothing
    # A null day, as of a probe that was not sent, and a nullable day that is not null.
    unsent, sent = "CAST(NULL AS Nullable(DateTime64(9, 'UTC')))", "now64(9)::Nullable(DateTime64(9))"
    assert ask(f"address_info('198.18.0.1', {unsent})") == nothing
    assert ask(f"address_info('198.18.0.1', {sent})") == named | {"organisation": "Eight's \\ Ltd"}
    assert ask("as_organisation(7, CAST(NULL AS Nullable(Date)))") is None
    assert ask("as_organisation(7, '2026-01-01')") == "Seven Ltd"
    assert ask("address_organisation(toIPv4('198.18.0.1'), '2026-01-31')") == "Seven Ltd"


def test_a_table_loaded_twice_replaced_or_with_another_of_its_day(tmp_path: Path) -> None:
    day = date(2026, 1, 1)
    asn = "address_asn('198.18.1.1', '2026-01-02')"
    first = load_table(tmp_path, "a", day, {"198.18.0.0/16": 7})
    second = load_table(tmp_path, "a", day, {"198.18.0.0/16": 7})
    assert isinstance(first, loader.Loaded) and isinstance(second, loader.Loaded)
    assert (first.action, second.action) == ("loaded", "unchanged")
    assert ask(asn) == 7
    load_table(tmp_path, "a", day, {"198.18.0.0/16": 8, "198.18.1.0/24": 16509})
    assert ask(asn) == 16509
    # A later table of the same day replaces it, in any order of loading.
    load_table(tmp_path, "b", day, {"198.18.0.0/16": 3320}, hour=6)
    load_table(tmp_path, "c", day, {"198.18.0.0/16": 13335}, hour=2)
    assert ask(asn) == 3320
    assert ask("(SELECT count() FROM as_prefix)") == 4
