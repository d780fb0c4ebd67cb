"""Every site of the lab, crawled on loopback: each row equals what the site declares."""

from __future__ import annotations

import pytest

from lab.file_sites import FileSite
from tests.crawl_files.world import Row, World

COMPARED = ("outcome", "url", "status", "method", "size", "size_is_lower_bound", "depth")


@pytest.fixture(scope="module")
def rows(world: World) -> dict[str, Row]:
    found = world.crawl([site.name for site in world.sites])
    assert len(found) == len(world.sites)
    return {row["domain"]: row for row in found}


def declared(site: FileSite) -> Row:
    """Return the columns of download_file that a site declares; sizes of cut bodies are lower bounds."""
    values = {"url": site.url, "depth": site.depth}
    for name in COMPARED:
        values.setdefault(name, getattr(site, {"size_is_lower_bound": "is_lower_bound"}.get(name, name)))
    return values


def test_every_row_equals_what_the_site_declares(world: World, rows: dict[str, Row]) -> None:
    different = {}
    for site in world.sites:
        row, wanted = rows[site.name], declared(site)
        got = {name: row[name] for name in COMPARED}
        if wanted["size_is_lower_bound"] and got["size"] is not None:
            # What is kept is a few TLS records more than the limit.
            got["size"] = wanted["size"] if 0 <= got["size"] - wanted["size"] < 100_000 else got["size"]
        if got != wanted:
            different[site.name] = (got, wanted, row["reason"])
    assert different == {}


def test_outcomes_of_the_sites_are_all_that_there_are(world: World) -> None:
    from crawler.files.visit import OUTCOMES

    assert {site.outcome for site in world.sites} == set(OUTCOMES)


def test_every_request_names_us_and_whom_to_ask(world: World, rows: dict[str, Row]) -> None:
    asked = [request for site in world.sites for request in world.asked(site.name)]
    assert len(asked) > 2 * len(rows)
    assert all(agent.startswith("firstflight/") and "crawl@example.org" in agent for _, _, agent in asked)


@pytest.mark.parametrize(
    ("label", "paths"),
    [
        ("robots-503", ["/robots.txt"]),
        ("robots-forbid", ["/robots.txt"]),
        ("robots-files", ["/robots.txt", "/"]),
        ("redirect", ["/robots.txt", "/"]),
        ("two", ["/robots.txt", "/", "/files/download.bin"]),
        ("hostile-links", ["/robots.txt", "/"]),
        ("bomb", ["/robots.txt", "/"]),
        ("blocked", []),
        # Each of the two hosts has a robots.txt of its own.
        ("redirect-www", ["/robots.txt"] * 2 + ["/"] * 2 + ["/files/download.bin"]),
    ],
)
def test_nothing_else_is_asked_for(world: World, rows: dict[str, Row], label: str, paths: list[str]) -> None:
    assert rows  # the crawl is over
    asked = {path for _, path, _ in world.asked(f"{label}.downloads.test")}
    assert asked <= set(paths)
    assert set(paths) <= asked or label == "redirect-www"


def test_crawl_trap_ends_at_the_limit_of_requests(world: World, rows: dict[str, Row]) -> None:
    assert rows["trap.downloads.test"]["reason"] == "200 requests"
    assert len(world.asked("trap.downloads.test")) == 200


def test_redirects_are_followed_five_times(world: World, rows: dict[str, Row]) -> None:
    assert rows["redirects.downloads.test"]["reason"] == "more than 5 redirects"
    paths = [path for _, path, _ in world.asked("redirects.downloads.test") if path != "/robots.txt"]
    assert paths == ["/", "/a", "/aa", "/aaa", "/aaaa", "/aaaaa"]


def test_certificate_of_another_name_is_no_answer(world: World, rows: dict[str, Row]) -> None:
    assert "erif" in rows["other-name.downloads.test"]["reason"]  # VerificationError, or the library's words
    assert world.asked("other-name.downloads.test") == []
