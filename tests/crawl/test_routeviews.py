"""A day's newest table. For a past day, this is the archive's last table, despite earlier downloads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest

from crawler import https
from crawler.routing import routeviews
from tests.attack.servers.evil_https import EvilHost, InPlaceOf, serving, whole

DAY = date(2024, 8, 7)
LAST = "rib.20240807.2200.bz2"
PAGE = "".join(f'<a href="rib.20240807.{hour:02}00.bz2">' for hour in (0, 2, 22))


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[EvilHost]:
    """An archive with three tables for the day."""

    def answer(path: str) -> Iterable[bytes]:
        return [whole(PAGE.encode() if path.endswith("/RIBS/") else b"table")]

    with serving(tmp_path / "host", answer, "archive.routeviews.org") as host:
        yield host


def fetch(archive: EvilHost, cache: Path) -> str:
    session = https.Session(archive.authority)
    session.mount("https://archive.routeviews.org", InPlaceOf("archive.routeviews.org", archive))
    path, url = routeviews.fetch(DAY, 4, cache, session)
    assert path.is_file() and url.endswith(f"/bgpdata/2024.08/RIBS/{path.name}")
    return path.name


def requested_paths(archive: EvilHost) -> list[str]:
    """Return the names requested in the day's folder; an empty name is the folder itself."""
    return [path.rpartition("/")[2] for path in archive.asked]


def test_a_table_that_was_fetched_during_the_day_is_not_the_last(archive: EvilHost, tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "route-views2"
    folder.mkdir(parents=True)
    (folder / "rib.20240807.0200.bz2").write_bytes(b"table")
    assert [fetch(archive, tmp_path / "cache") for _ in range(3)] == [LAST] * 3
    assert requested_paths(archive) == ["", LAST]


@pytest.mark.parametrize("damage", ["gone", "", "../x", "rib.20240807.9999.bz2"])
def test_a_note_that_names_no_table_is_not_believed(archive: EvilHost, tmp_path: Path, damage: str) -> None:
    fetch(archive, tmp_path / "cache")
    folder = tmp_path / "cache" / "route-views2"
    if damage == "gone":
        (folder / LAST).unlink()
    else:
        (folder / "rib.20240807.last").write_text(damage)
    archive.asked.clear()
    assert fetch(archive, tmp_path / "cache") == LAST
    assert requested_paths(archive)[0] == ""


@pytest.mark.parametrize(("now", "asks"), [((7, 23), True), ((8, 11), True), ((8, 12), False)])
def test_until_the_next_noon_the_archive_is_requested(
    archive: EvilHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, now: tuple[int, int], asks: bool
) -> None:
    class Today(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return cls(2024, 8, *now, tzinfo=tz)

    monkeypatch.setattr(routeviews, "datetime", Today)
    assert [fetch(archive, tmp_path / "cache") for _ in range(2)] == [LAST] * 2
    assert requested_paths(archive) == ["", LAST, *[""] * asks]
