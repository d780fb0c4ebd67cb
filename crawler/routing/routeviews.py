"""Finds and fetches the routing tables of a day in RouteViews' archive (https://archive.routeviews.org)."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from datetime import date as Date
from pathlib import Path

from crawler import https

HOST = "https://archive.routeviews.org"
# family -> (collector's folder in the archive, name in the cache)
COLLECTORS = {4: ("bgpdata", "route-views2"), 6: ("route-views6/bgpdata", "route-views6")}
_LINK = re.compile(r'href="(rib\.(\d{8})\.(\d{4})\.bz2)"', re.IGNORECASE)


def fetch(date: Date, family: int, cache_dir: Path, session: https.Session) -> tuple[Path, str]:
    """Fetch the newest table of that day (UTC) for IPv4 (4) or IPv6 (6); return its cached file and its URL.

    For a past day the archive is not asked again once a table is in the cache. FetchError if the archive
    cannot be reached or has no table of that day.
    """
    root, collector = COLLECTORS[family]
    folder = cache_dir / collector
    base = f"{HOST}/{root}/{date:%Y.%m}/RIBS/"
    if date < datetime.now(UTC).date():
        cached = sorted(folder.glob(f"rib.{date:%Y%m%d}.*.bz2"))
        if cached:
            return cached[-1], base + cached[-1].name
    name = _newest(https.get_text(session, base), date)
    if name is None:
        raise https.FetchError(f"{base} has no table of {date} (IPv{family}); choose another [as_data] date")
    if not (folder / name).is_file():
        https.download(session, base + name, folder / name, https.MAX_TABLE_BYTES)
    return folder / name, base + name


def _newest(page: str, date: Date) -> str | None:
    """Return the name of the day's last table on a directory page of the archive; None without one."""
    found = [(time, name) for name, day, time in _LINK.findall(page) if day == f"{date:%Y%m%d}"]
    return max(found)[1] if found else None
