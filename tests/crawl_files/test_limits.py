"""The limits per name and per request work against servers that would continue forever."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.crawl_files.world import CrawlWorld
from tests.waiting import PATIENCE_S

SCRIPT = """
import json, sys
from crawler.files import crawl
from crawler.files.limits import Limits
from crawler.files.fetching.pace import Pace
from crawler.files.spider import Task
from pathlib import Path

class Lookup:
    async def addresses(self, name):
        return [sys.argv[3]]
def show(result):
    print(json.dumps([result.outcome, result.reason, result.counts.requests, result.visit.wire.received]))
limits = Limits(**json.loads(sys.argv[2]))
task = Task([sys.argv[1]], Lookup, lambda *_: None, show, limits, 1)
crawl.run(task, contact="crawl@example.org", pace=Pace(1000, 0), roots=Path(sys.argv[4]))
"""


@pytest.mark.parametrize(
    ("label", "limits", "outcome", "reason"),
    [
        ("trap", {"requests": 7}, "limit", "7 requests"),
        ("trap", {"requests": 100_000, "seconds": 0.2}, "limit", "0.2 seconds"),
        ("trap", {"processor_seconds": 0.1}, "limit", "0.1 seconds of processor time"),
        ("trap", {"received_bytes": 40_000}, "limit", "bytes received"),
        # Only the start page, with its links to the calendar.
        ("trap", {"depth": 0}, "nothing_found", None),
        ("tarpit", {"request_seconds": 1.5}, "failed", "took longer than 1.5 seconds"),
        ("drips", {"request_seconds": 1.5}, "failed", "took longer than 1.5 seconds"),
        ("robots-endless", {"robots_bytes": 1000}, "found", None),
        ("giant-page", {"page_bytes": 1000}, "nothing_found", None),
        ("one", {"smallest": 2_000_000}, "too_small", None),
        ("one", {"largest": 999_999, "smallest": 1000}, "too_large", None),
        ("redirects", {"redirects": 2}, "failed", "more than 2 redirects"),
        ("walls", {"forbidden": 50}, "robots", "50 requests are forbidden"),
    ],
)
def test_limit(
    world: CrawlWorld, label: str, limits: dict[str, float], outcome: str, reason: str | None
) -> None:
    name = f"{label}.downloads.test"
    address = next((site.ip for site in world.sites if site.name == name), world.odd)
    argv = [sys.executable, "-c", SCRIPT, name, json.dumps(limits), address, str(world.authority)]
    done = subprocess.run(
        [str(word) for word in argv], capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr
    found, why, requests, received = json.loads(done.stdout)
    assert found == outcome, why
    assert why is None if reason is None else reason in why
    assert requests <= limits.get("requests", 200)
    assert received <= limits.get("received_bytes", 20_000_000) + 65_536
