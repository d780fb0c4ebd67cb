"""The hosts that a crawl may contact, and the check of the policy when a socket is opened."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from crawler.files.fetching.fetch import Asked, HttpResponse, Stopped
from crawler.files.fetching.lookup import endpoint
from crawler.files.fetching.pace import Pace
from crawler.files.fetching.policy import Policy
from crawler.files.fetching.wire import Wire
from crawler.files.limits import Limits
from crawler.files.pages import page_thread
from crawler.files.visit import Visit
from firstflight.errors import UsageError
from tests.crawl_files.world import CrawlWorld
from tests.waiting import PATIENCE_S

# A crawl of a single name, with the policy's answers for the name and for its `www.` name.
SCRIPT = """
import json, sys
from crawler.files import crawl
from crawler.files.limits import Limits
from crawler.files.fetching.pace import Pace
from crawler.files.spider import Task
from pathlib import Path

answers = {}
def why_not(address, name):
    left = answers.setdefault(name.startswith("www."), iter(json.loads(sys.argv[2])[name.startswith("www.")]))
    return next(left, "too late")
class Lookup:
    async def addresses(self, name):
        return [sys.argv[3]]
def show(result):
    print(json.dumps([result.outcome, result.reason]))
task = Task([sys.argv[1]], Lookup, why_not, show, Limits(), 1)
crawl.run(task, contact="crawl@example.org", pace=Pace(100, 0), roots=Path(sys.argv[4]))
"""


Answers = list[str | None]
FREE: Answers = [None] * 50


def one_crawl(
    world: CrawlWorld, name: str, answers: Answers, address: str, of_www: Answers = FREE
) -> list[str]:
    argv = [sys.executable, "-c", SCRIPT, name, json.dumps([answers, of_www]), address, str(world.authority)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    found: list[str] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
    ("answers", "outcome"),
    [([None, "its address is on a list"], "blocked"), (FREE, "found")],
)
def test_the_policy_is_asked_for_each_connection(world: CrawlWorld, answers: Answers, outcome: str) -> None:
    """The first answer is for the name, before its crawl; the next for the connection of robots.txt."""
    name = "five.downloads.test"
    address = next(site.ip for site in world.sites if site.name == name)
    assert address is not None
    before = len(world.asked(name))
    found, reason = one_crawl(world, name, answers, address)
    assert found == outcome
    assert (len(world.asked(name)) == before) == (outcome == "blocked")
    assert reason == ("its address is on a list" if outcome == "blocked" else None)


@pytest.mark.parametrize("permitted", [2, 4, 20])
def test_an_opt_out_during_a_crawl_is_blocked(world: CrawlWorld, permitted: int) -> None:
    """After robots.txt, the start page and some pages, the outcome is `blocked` (docs/site/opt-outs.md)."""
    name = "trap.downloads.test"
    address = next(site.ip for site in world.sites if site.name == name)
    assert address is not None
    opted_out = "its name is on a list"
    assert one_crawl(world, name, [*[None] * permitted, opted_out], address) == ["blocked", opted_out]


@pytest.mark.parametrize(
    ("of_www", "outcome", "reason", "paths"),
    [
        ([], "elsewhere", "redirect of robots.txt", ["/robots.txt"]),
        # The entry arrives after the crawl has accepted the redirect.
        ([None], "blocked", "too late", ["/robots.txt"]),
        (FREE, "found", None, ["/robots.txt"] * 3 + ["/"] * 2 + ["/files/download.bin"]),
    ],
)
def test_the_policy_is_asked_about_the_host_of_each_request(
    world: CrawlWorld, of_www: Answers, outcome: str, reason: str | None, paths: list[str]
) -> None:
    """The site redirects to the `www.` name, which has all pages."""
    name = "redirect-www.downloads.test"
    address = next(site.ip for site in world.sites if site.name == name)
    assert address is not None
    before = len(world.asked(name))
    assert one_crawl(world, name, FREE, address, of_www) == [outcome, reason]
    assert sorted(path for _, path, _ in world.asked(name)[before:]) == sorted(paths)


def test_address_of_the_other_family(world: CrawlWorld) -> None:
    given = json.loads((world.folder / "files" / "odd.json").read_text())
    config = world.folder / "odd6.json"
    config.write_text(json.dumps({**given, "listen": ["::1"]}))
    argv = [sys.executable, "-P", "-m", "lab.hosts.odd_files", str(config)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None and server.stdout.readline() == "READY\n"
        try:
            assert one_crawl(world, "slow.downloads.test", FREE, "::1") == ["found", None]
        finally:
            server.terminate()


def test_own_addresses_are_not_crawled() -> None:
    """The test adds an ordinary public address to lo, in this namespace only."""
    local_address, other = "192.0.1.7", "192.0.1.8"
    subprocess.run(["ip", "addr", "add", f"{local_address}/32", "dev", "lo"], check=True)
    try:
        policy = Policy((), (), (), "crawl@example.org")
        assert policy.why_not(local_address) == "its address is this machine's"
        assert policy.why_not(other) is None
    finally:
        subprocess.run(["ip", "addr", "del", f"{local_address}/32", "dev", "lo"], check=True)
    assert policy.why_not(local_address) is None


def test_lists_networks_and_contact(tmp_path: Path) -> None:
    listed = tmp_path / "list.conf"
    listed.write_text("127.1.0.0/16\n")
    optout = tmp_path / "optout.conf"
    optout.write_text("example.org\n")
    policy = Policy([listed], [optout], ["127.0.0.0/8"], "")
    assert policy.why_not("127.2.0.1", "a.test") is None
    assert policy.why_not("127.1.0.1", "a.test") == "its address is on a list"
    assert policy.why_not("127.2.0.1", "www.example.org") == "its name is on a list"
    assert policy.why_not("10.0.0.1") == "its address is special"
    assert policy.why_not("192.0.1.8") == "there is no contact for it"
    policy.check_resolver("127.2.0.1")
    with pytest.raises(UsageError, match=r"the resolver 127\.1\.2\.3 is on a list"):
        policy.check_resolver("127.1.2.3")
    with pytest.raises(UsageError, match="--contact is needed"):
        Policy((), (), (), " ")


def test_requests_of_an_address_and_all_requests_keep_their_distance() -> None:
    now = [100.0]
    pace = Pace(10, 1, lambda: now[0])
    assert [round(pace.reserve("a"), 6) for _ in range(3)] == [0, 1, 2]
    assert round(pace.reserve("b"), 6) == 0.1  # the first time without another request
    assert pace.limit() == "rate"
    assert round(pace.reserve("b"), 6) == 1.1 and pace.limit() == "limit per address"
    now[0] = 110.0
    assert [round(pace.reserve(name), 6) for name in ("b", "c", "b")] == [0, 0.1, 1]
    free = Pace(1000, 0, lambda: now[0])
    assert [round(free.reserve("a"), 6) for _ in range(3)] == [0, 0.001, 0.002]


def test_requests_that_wait_for_their_address_and_others_keep_the_rate_together() -> None:
    now = [100.0]
    pace = Pace(10, 1, lambda: now[0])

    def begins(letter: str, count: int) -> list[float]:
        return [round(now[0] - 100 + pace.reserve(f"{letter}{number}"), 6) for number in range(count)]

    assert begins("a", 5) == [0, 0.1, 0.2, 0.3, 0.4]
    now[0] = 100.45
    assert begins("a", 5) == [1.0, 1.1, 1.2, 1.3, 1.4]
    assert begins("b", 10) == [0.5, 0.6, 0.7, 0.8, 0.9, 1.5, 1.6, 1.7, 1.8, 1.9]


def test_held_requests_resume_at_the_rate() -> None:
    """The rate per address holds, too, and each waiting request gets the time that it waited."""
    ends: dict[str, list[float]] = {"a": [], "b": []}
    free = False

    async def request(pace: Pace, address: str) -> None:
        held_s = await pace.turn(address)
        assert 0 < held_s <= monotonic() - begin
        ends[address].append(monotonic())

    async def crawl() -> float:
        nonlocal free
        pace = Pace(20, 10)
        pace.is_free = lambda: free
        tasks = [asyncio.create_task(request(pace, address)) for address in "ab" * 5]
        await asyncio.sleep(10 / 20 + 0.2)  # the places that they have first are over
        free, freed = True, monotonic()
        await asyncio.gather(*tasks)
        return freed

    begin = monotonic()
    freed = asyncio.run(crawl())
    assert max(*ends["a"], *ends["b"]) - freed >= 9 / 20
    assert all(max(moments) - freed >= 4 / 10 for moments in ends.values())


def test_a_turn_reports_how_long_it_took() -> None:
    """That is no part of a name's time, whatever the rate that all names share."""

    async def crawl() -> tuple[float, float]:
        begin = monotonic()
        pace = Pace(20, 0)
        waited_s = sum([await pace.turn(address) for address in "abc"])
        return waited_s, monotonic() - begin

    waited_s, all_s = asyncio.run(crawl())
    assert 2 / 20 - 0.001 <= waited_s <= all_s


@pytest.mark.parametrize("is_free", [True, False])
def test_waiting_for_a_turn_can_be_stopped(is_free: bool) -> None:
    """The second request has its turn after 1,000 s, or never."""

    async def crawl() -> list[BaseException | float]:
        pace = Pace(0.001, 0)
        pace.is_free = lambda: is_free
        tasks = [asyncio.create_task(pace.turn("a")) for _ in range(2)]
        await asyncio.sleep(0)
        pace.is_ending = lambda: True
        return await asyncio.gather(*tasks, return_exceptions=True)

    first, second = asyncio.run(crawl())
    assert isinstance(second, Stopped)
    assert isinstance(first, float if is_free else Stopped)


def test_a_hold_is_no_part_of_a_names_time() -> None:
    """Two hours in which nothing might be sent, of a name that has ten minutes."""
    now, requested = [0.0], list[str]()

    async def fetch(visit: Visit, request: Asked) -> HttpResponse:
        now[0] += 7200
        visit.extend(7200)
        requested.append(request.url)
        return HttpResponse(200, {"content-type": "text/html"}, b"<a href=/1><a href=/2>")

    async def addresses(_: str) -> list[str]:
        return []

    wire = Wire("127.0.0.1", lambda *_: None, 1_000_000)
    visit = Visit("a.test", wire, Limits(), fetch, addresses, clock=lambda: now[0])
    asyncio.run(visit.run())
    assert (visit.outcome, len(requested)) == ("nothing_found", 3)


def test_pages_of_others_are_no_part_of_a_names_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading a page takes an hour, but 1 s of processor time. The limits are 10 min, and 2.5 s of that."""
    now, requested = [0.0], list[str]()

    async def fetch(_: Visit, request: Asked) -> HttpResponse:
        requested.append(request.url)
        return HttpResponse(200, {"content-type": "text/html"}, b"<a href=/%d>" % len(requested))

    async def addresses(_: str) -> list[str]:
        return []

    async def run(work: Callable[[], Any]) -> tuple[Any, float]:
        now[0] += 3600
        return work(), 1.0

    monkeypatch.setattr(page_thread, "run", run)
    wire = Wire("127.0.0.1", lambda *_: None, 1_000_000)
    limits = Limits(processor_seconds=2.5)
    visit = Visit("a.test", wire, limits, fetch, addresses, clock=lambda: now[0])
    asyncio.run(visit.run())
    assert (visit.outcome, visit.reason, len(requested)) == ("limit", "2.5 seconds of processor time", 3)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("127.0.0.1", ("127.0.0.1", 53)),
        ("127.0.0.1:5353", ("127.0.0.1", 5353)),
        ("127.0.0.1#5353,weight=2", ("127.0.0.1", 5353)),
        ("::1", ("::1", 53)),
        ("::1#54", ("::1", 54)),
        ("[::1]:5353", ("::1", 5353)),
        ("[::1]", ("::1", 53)),
        *(
            (wrong, None)
            for wrong in ("", "a.test", "127.0.0.1:0", "127.0.0.1:65536", "127.0.0.1:x", "1:2:3")
        ),
    ],
)
def test_form_of_resolvers(text: str, found: tuple[str, int] | None) -> None:
    if found is not None:
        assert endpoint(text) == found
        return
    with pytest.raises(UsageError, match="write IP or IP:PORT"):
        endpoint(text)


def test_the_pace_reports_what_the_newest_request_waited_for() -> None:
    now = [0.0]
    pace = Pace(10, 1, lambda: now[0])
    assert pace.limit() is None
    for after_s, address, expected in (
        (1, "a", "answers of web sites"),
        (0.05, "b", "rate"),
        (0.5, "a", "limit per address"),
        (5, "a", "answers of web sites"),
    ):
        now[0] += after_s
        pace.reserve(address)
        assert pace.limit() == expected
