"""Finds and fetches the routing tables of a day in RouteViews' archive (https://archive.routeviews.org)."""

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
    """Fetch the newest table of that day (UTC) for IPv4 (4) or IPv6 (6); return its cached file and its URL.

    For a past day the archive is not asked again once it named the last table: one that was fetched during
    the day may be an earlier one. FetchError if the archive cannot be reached or has no table of that day.
    """
    root, collector = COLLECTORS[family]
    folder = cache_dir / collector
    base = f"{HOST}/{root}/{date:%Y.%m}/RIBS/"
    # Not at once after midnight: the archive has a table some time after it was taken.
    is_over = date < (datetime.now(UTC) - timedelta(hours=12)).date()
    last = folder / f"rib.{date:%Y%m%d}.last"
    if is_over and last.is_file():
        noted = last.read_text(encoding="utf-8", errors="replace").strip()
        if _LINK.fullmatch(f'href="{noted}"') and (folder / noted).is_file():
            return folder / noted, base + noted
    name = _newest(https.get_text(session, base), date)
    if name is None:
        raise https.FetchError(f"{base} has no table of {date} (IPv{family}); choose another [as_data] date")
    if not (folder / name).is_file():
        https.download(session, base + name, folder / name, https.MAX_TABLE_BYTES)
    if is_over:
        files.write_text(last, name)
    return folder / name, base + name


def _newest(page: str, date: Date) -> str | None:
    """Return the name of the day's last table on a directory page of the archive; None without one."""
    found = [(time, name) for name, day, time in _LINK.findall(page) if day == f"{date:%Y%m%d}"]
    return max(found)[1] if found else None
