"""tranco-list.eu in the lab: the lists, and the files and nginx rules that serve them as the real host does.

It serves what the PyPI package `tranco` (0.8.1) requests: the id of a day's list, the list by id as a zip of
top-1m.csv or as CSV, and the list's metadata. Lists are CSV without header, `rank,domain`, lines ended by
CRLF. One list, like the custom ones on the real host, is not available as zip (403).
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

HOST = "tranco-list.eu"
MAIN_DAY = date(2024, 8, 7)  # a fixed day whose list holds every name of the lab
OLD_DAY = date(2024, 8, 6)  # the list of the day before is another one
RECENT_DAYS = 7
COMING_DAYS = 30  # of a lab that stays up: nobody publishes lists later
CUSTOM_NAMES = 100


@dataclass(frozen=True)
class TrancoList:
    """A list as published: `names` by rank from 1, `day` None for a custom list."""

    list_id: str
    day: date | None
    subdomains: bool
    names: tuple[str, ...]

    def csv(self) -> bytes:
        """Return the list's file."""
        return "".join(f"{rank},{name}\r\n" for rank, name in enumerate(self.names, start=1)).encode()

    def zip(self) -> bytes:
        """Return the list's file as top-1m.csv in a zip archive; the same bytes every time."""
        out = io.BytesIO()
        day = self.day or MAIN_DAY
        member = zipfile.ZipInfo("top-1m.csv", (day.year, day.month, day.day, 0, 0, 0))
        with zipfile.ZipFile(out, "w") as archive:
            archive.writestr(member, self.csv(), zipfile.ZIP_DEFLATED)
        return out.getvalue()

    def metadata(self) -> dict[str, object]:
        """Return the API's metadata of the list."""
        created = f"{self.day or MAIN_DAY}T00:00:00.000000"
        return {
            "list_id": self.list_id,
            "available": True,
            "failed": False,
            "jobs_ahead": 0,
            "created_on": created,
            "download": f"https://{HOST}/download/{self.list_id}/1000000",
            "configuration": {"isDailyList": self.day is not None, "includeSubdomains": self.subdomains},
        }


def make_list(day: date | None, subdomains: bool, names: Sequence[str]) -> TrancoList:
    """Return a list whose id is derived from its content, so that no two lists, of any lab, share one."""
    content = f"{day} {subdomains} " + "\n".join(names)
    list_id = base64.b32encode(hashlib.sha256(content.encode()).digest())[:5].decode()
    return TrancoList(list_id, day, subdomains, tuple(names))


def lists(names: Sequence[str], today: date) -> list[TrancoList]:
    """Return all lists: daily ones with and without subdomains, and a custom one.

    `names` are the lab's names by rank. All days list them in that order, except the old day: it lacks the
    last tenth and ranks the rest in reverse.
    """
    days = [MAIN_DAY, *(today - timedelta(days=back) for back in range(RECENT_DAYS, -COMING_DAYS - 1, -1))]
    found = [make_list(day, sub, names) for day in dict.fromkeys(days) for sub in (False, True)]
    old = list(reversed(names[: len(names) * 9 // 10]))
    found += [make_list(OLD_DAY, sub, old) for sub in (False, True)]
    return [*found, make_list(None, False, names[:CUSTOM_NAMES])]


def write_tree(tree: Path, published: Iterable[TrancoList]) -> None:
    """Write the host's files below its document root `tree`."""
    for one in published:
        _write(tree / "download" / one.list_id / "1000000", one.csv())
        _write(tree / "download" / one.list_id / "full", one.csv())
        _write(tree / "api" / "lists" / "id" / one.list_id, json.dumps(one.metadata()).encode())
        if one.day is not None:
            _write(tree / "download_daily" / one.list_id, one.zip())


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def nginx_map(published: Iterable[TrancoList]) -> str:
    """Return nginx's `map` from a request for a day's list to its id; empty for a day without list."""
    rows = [f'  "{one.day}/{str(one.subdomains).lower()}" {one.list_id};' for one in published if one.day]
    return "\n".join(['map "$arg_date/$arg_subdomains" $daily_list {', '  default "";', *rows, "}"])


def nginx_locations(published: Iterable[TrancoList]) -> str:
    """Return the rules of the host beyond plain files."""
    custom = [
        f"location = /download_daily/{one.list_id} {{ return 403; }}" for one in published if one.day is None
    ]
    return "\n".join(
        [
            "location = /daily_list_id {",
            "  default_type text/plain;",
            '  if ($daily_list = "") { return 404; }',
            "  return 200 $daily_list;",
            "}",
            "location /download_daily/ { default_type application/zip; }",
            "location /download/ { default_type text/csv; }",
            "location /api/ { default_type application/json; }",
            *custom,
        ]
    )
