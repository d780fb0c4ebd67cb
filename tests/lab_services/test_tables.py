"""The archive's routing tables, read with pyasn, contain exactly the declared routes."""

from __future__ import annotations

import bz2
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyasn import mrtx, pyasn

from lab.as_data.routing import split_families
from lab.declared.model import Announcement
from lab.hosts import list_host

from .conftest import RunningWorld

ARCHIVE = "https://archive.routeviews.org"


def get(running: RunningWorld, url: str, file: Path) -> Path:
    got = running.world.client("fetch", url, str(file), env=running.trust)
    assert got == {"status": 200, "error": None}, url
    return file


def links(page: Path) -> list[str]:
    """Return the links on a directory page, without sort links and the parent directory."""
    return [
        link for link in re.findall(r'href="([^"]+)"', page.read_text()) if not link.startswith(("?", "/"))
    ]


def tables(running: RunningWorld, root: str, folder: Path) -> dict[str, Path]:
    """Follow the pages' links below a root, and return all tables: name -> downloaded file."""
    found = {}
    for month in links(get(running, f"{ARCHIVE}/{root}/", folder / "page")):
        assert re.fullmatch(r"\d{4}\.\d{2}/", month)
        assert links(get(running, f"{ARCHIVE}/{root}/{month}", folder / "page")) == ["RIBS/"]
        for name in links(get(running, f"{ARCHIVE}/{root}/{month}RIBS/", folder / "page")):
            found[name] = get(running, f"{ARCHIVE}/{root}/{month}RIBS/{name}", folder / name)
    return found


@pytest.fixture
def routes(running: RunningWorld) -> dict[str, list[Announcement]]:
    return dict(
        zip(("bgpdata", "route-views6/bgpdata"), split_families(running.internet.routes), strict=True)
    )


@pytest.mark.parametrize("root", ["bgpdata", "route-views6/bgpdata"])
def test_tables_hold_exactly_the_declared_paths(
    running: RunningWorld, routes: dict[str, list[Announcement]], root: str, tmp_path: Path
) -> None:
    found = tables(running, root, tmp_path)
    days = {name[4:12] for name in found}
    assert {f"{list_host.MAIN_DAY:%Y%m%d}", f"{list_host.OLD_DAY:%Y%m%d}"} < days
    assert len(days) in (3, 4)  # 4 if midnight has passed since the start of the services
    declared = {route.prefix: list(route.as_path) for route in routes[root]}
    for name, file in found.items():
        assert mrtx.parse_mrt_file(str(file)) == {prefix: path[-1] for prefix, path in declared.items()}
        written = datetime.strptime(name, "rib.%Y%m%d.%H%M.bz2").replace(tzinfo=UTC).timestamp()
        with bz2.open(file) as dump:
            paths = {}
            while record := mrtx.MrtRecord.next_dump_table_record(dump):
                assert record.ts == written
                if record.sub_type != mrtx.MrtRecord.T2_PEER_INDEX:
                    (entry,) = record.detail.entries
                    assert entry.orig_ts <= written
                    (path,) = [a.path_detail() for a in entry.attrs if a.bgp_type == a.ATTR_AS_PATH]
                    paths[record.prefix] = [asn for segment in path.pathsegs for asn in segment.path]
        assert paths == declared


def test_every_address_has_the_declared_origin(running: RunningWorld, tmp_path: Path) -> None:
    prefixes: dict[str, int] = {}
    for root in ("bgpdata", "route-views6/bgpdata"):
        url = f"{ARCHIVE}/{root}/2024.08/RIBS/rib.20240807.0000.bz2"
        prefixes |= mrtx.parse_mrt_file(str(get(running, url, tmp_path / "rib.bz2")))
    mrtx.dump_prefixes_to_file(prefixes, str(tmp_path / "rib.pyasn"))
    database = pyasn(str(tmp_path / "rib.pyasn"))
    wrong = [e for e in running.internet.endpoints if database.lookup(e.ip)[0] != e.asn]
    assert wrong == []
    assert any(e.asn is None for e in running.internet.endpoints)
