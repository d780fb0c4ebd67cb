"""Finds and fetches a day's routing tables in RouteViews' archive (https://archive.routeviews.org)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from datetime import date as Date
from pathlib import Path

from crawler import https
from firstflight.system import files

HOST = "https://archive.routeviews.org"
# family -> (collector's folder in the archive, name in the cache)
COLLECTORS = {4: ("bgpdata", "route-views2"), 6: ("route-views6/bgpdata", "route-views6")}
_LINK = re.compile(r'href="(rib\.(\d{8})\.(\d{4})\.bz2)"', re.IGNORECASE)


def fetch(date: Date, family: int, cache_dir: Path, session: https.Session) -> tuple[Path, str]:
    """Fetch the newest table of `date` (UTC) for IPv4 (4) or IPv6 (6). Return the cached file and the URL.

    For a past day, the archive is requested once for the name of the last table, because a table that was
    fetched during the day may not be the last. Raise FetchError if the archive is unreachable or lacks that
    day's table.
    """
    root, collector = COLLECTORS[family]
    folder = cache_dir / collector
    base = f"{HOST}/{root}/{date:%Y.%m}/RIBS/"
    # Not immediately after midnight: tables appear in the archive with a delay.
    is_over = date < (datetime.now(UTC) - timedelta(hours=12)).date()
    last_file = folder / f"rib.{date:%Y%m%d}.last"
    if is_over and last_file.is_file():
        cached_name = last_file.read_text(encoding="utf-8", errors="replace").strip()
        if _LINK.fullmatch(f'href="{cached_name}"') and (folder / cached_name).is_file():
            return folder / cached_name, base + cached_name
    name = _newest(https.get_text(session, base), date)
    if name is None:
        raise https.FetchError(f"{base} has no table of {date} (IPv{family}); choose another [as_data] date")
    if not (folder / name).is_file():
        https.download(session, base + name, folder / name, https.MAX_TABLE_BYTES)
    if is_over:
        files.write_text(last_file, name)
    return folder / name, base + name


def _newest(page: str, date: Date) -> str | None:
    """Return the name of the day's last table on a directory page; `None` if there is no table."""
    tables = [(time, name) for name, day, time in _LINK.findall(page) if day == f"{date:%Y%m%d}"]
    return max(tables)[1] if tables else None
