"""tranco-list.eu in the lab: the lists, and files and nginx rules that serve them like the real host.

It serves the requests of the PyPI package `tranco` (0.8.1): the id of a day's list, the list by id as a zip
of top-1m.csv or as CSV, and the list's metadata. Lists are CSV without header, `rank,domain`, with CRLF line
ends. One list is not available as zip (403), like the custom lists on the real host.
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
MAIN_DAY = date(2024, 8, 7)  # a fixed day; its list contains every name of the lab
OLD_DAY = date(2024, 8, 6)  # a day with a different list
RECENT_DAYS = 7
COMING_DAYS = 30  # published in advance, for a lab that stays up
CUSTOM_NAMES = 100


@dataclass(frozen=True)
class TrancoList:
    """A list as published: `names` by rank from 1; `day` is `None` for a custom list."""

    list_id: str
    day: date | None
    subdomains: bool
    names: tuple[str, ...]

    def csv(self) -> bytes:
        """Return the list's file."""
        return "".join(f"{rank},{name}\r\n" for rank, name in enumerate(self.names, start=1)).encode()

    def zip(self) -> bytes:
        """Return the list's file as top-1m.csv in a zip archive; the same bytes every time."""
        buffer = io.BytesIO()
        day = self.day or MAIN_DAY
        member = zipfile.ZipInfo("top-1m.csv", (day.year, day.month, day.day, 0, 0, 0))
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr(member, self.csv(), zipfile.ZIP_DEFLATED)
        return buffer.getvalue()

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
    """Return a list. The id is derived from the content, so that no two lists share one, even across labs."""
    content = f"{day} {subdomains} " + "\n".join(names)
    list_id = base64.b32encode(hashlib.sha256(content.encode()).digest())[:5].decode()
    return TrancoList(list_id, day, subdomains, tuple(names))


def lists(names: Sequence[str], today: date) -> list[TrancoList]:
    """Return all lists: daily ones with and without subdomains, and a custom one.

    `names` are the lab's names by rank. All days list them in that order, except the old day: it lacks the
    last tenth and ranks the rest in reverse.
    """
    days = [
        MAIN_DAY,
        *(today - timedelta(days=days_back) for days_back in range(RECENT_DAYS, -COMING_DAYS - 1, -1)),
    ]
    published = [
        make_list(day, subdomains, names) for day in dict.fromkeys(days) for subdomains in (False, True)
    ]
    old_names = list(reversed(names[: len(names) * 9 // 10]))
    published += [make_list(OLD_DAY, subdomains, old_names) for subdomains in (False, True)]
    return [*published, make_list(None, False, names[:CUSTOM_NAMES])]


def write_tree(tree: Path, published: Iterable[TrancoList]) -> None:
    """Write the host's files below its document root `tree`."""
    for tranco_list in published:
        _write(tree / "download" / tranco_list.list_id / "1000000", tranco_list.csv())
        _write(tree / "download" / tranco_list.list_id / "full", tranco_list.csv())
        _write(
            tree / "api" / "lists" / "id" / tranco_list.list_id, json.dumps(tranco_list.metadata()).encode()
        )
        if tranco_list.day is not None:
            _write(tree / "download_daily" / tranco_list.list_id, tranco_list.zip())


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def nginx_map(published: Iterable[TrancoList]) -> str:
    """Return nginx's `map` from a request for a day's list to its id; empty for a day without list."""
    rows = [
        f'  "{tranco_list.day}/{str(tranco_list.subdomains).lower()}" {tranco_list.list_id};'
        for tranco_list in published
        if tranco_list.day
    ]
    return "\n".join(['map "$arg_date/$arg_subdomains" $daily_list {', '  default "";', *rows, "}"])


def nginx_locations(published: Iterable[TrancoList]) -> str:
    """Return the rules of the host beyond plain files."""
    custom = [
        f"location = /download_daily/{tranco_list.list_id} {{ return 403; }}"
        for tranco_list in published
        if tranco_list.day is None
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
