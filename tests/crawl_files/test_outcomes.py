"""Every site of the lab, crawled on loopback: each row equals the site's declaration."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from lab.declared.file_sites import FileSite
from tests.crawl_files.world import CrawlWorld, Row

COMPARED = ("outcome", "url", "status", "method", "size", "size_is_lower_bound", "depth")


@dataclass(frozen=True)
class Crawled:
    """The rows of a crawl of all sites by domain, and the requests of each: method, path, user agent."""

    rows: dict[str, Row]
    asked: dict[str, list[tuple[str, str, str]]]


@pytest.fixture(scope="module")
def crawled(world: CrawlWorld) -> Crawled:
    names = [site.name for site in world.sites]
    before = {name: len(world.asked(name)) for name in names}
    found = world.crawl(names)
    assert len(found) == len(names)
    requests = {name: world.asked(name)[before[name] :] for name in names}
    return Crawled({row["domain"]: row for row in found}, requests)


def declared(site: FileSite) -> Row:
    """Return the columns of download_file that a site declares; sizes of cut bodies are lower bounds."""
    values = {"url": site.url, "depth": site.depth}
    for name in COMPARED:
        values.setdefault(name, getattr(site, {"size_is_lower_bound": "is_lower_bound"}.get(name, name)))
    return values


def test_every_row_equals_what_the_site_declares(world: CrawlWorld, crawled: Crawled) -> None:
    different = {}
    for site in world.sites:
        row, wanted = crawled.rows[site.name], declared(site)
        got = {name: row[name] for name in COMPARED}
        if wanted["size_is_lower_bound"] and got["size"] is not None:
            # The kept body exceeds the limit by a few TLS records.
            got["size"] = wanted["size"] if 0 <= got["size"] - wanted["size"] < 100_000 else got["size"]
        if got != wanted:
            different[site.name] = (got, wanted, row["reason"])
    assert different == {}


def test_outcomes_of_the_sites_are_all_that_there_are(world: CrawlWorld) -> None:
    from crawler.files.visit import OUTCOMES

    assert {site.outcome for site in world.sites} == set(OUTCOMES)


def test_every_request_names_us_and_a_contact(world: CrawlWorld, crawled: Crawled) -> None:
    requests = [request for site in world.sites for request in crawled.asked[site.name]]
    assert len(requests) > 2 * len(crawled.rows)
    assert all(agent.startswith("firstflight/") and "crawl@example.org" in agent for _, _, agent in requests)


@pytest.mark.parametrize(
    ("label", "paths"),
    [
        ("robots-503", ["/robots.txt"]),
        ("robots-forbid", ["/robots.txt"]),
        ("robots-files", ["/robots.txt", "/"]),
        ("redirect", ["/robots.txt", "/"]),
        ("two", ["/robots.txt", "/", "/files/download.bin"]),
        # A request for human verification ends a crawl.
        ("challenge", ["/robots.txt", "/"]),
        ("challenge-robots", ["/robots.txt"]),
        ("captcha", ["/robots.txt", "/", "/files/download.bin"]),
        ("interstitial", ["/robots.txt"]),
        ("hostile-links", ["/robots.txt", "/"]),
        ("bomb", ["/robots.txt", "/"]),
        ("blocked", []),
        ("umlauts", ["/robots.txt", "/", "/%C3%A4", "/%C3%BC.bin"]),
        # The `www.` name has another address, so it does not belong to the site.
        ("www-elsewhere", ["/robots.txt"]),
        # robots.txt redirects to the robots.txt of `www.`, which is requested again for the pages of `www.`.
        ("redirect-www", ["/robots.txt"] * 3 + ["/"] * 2 + ["/files/download.bin"]),
    ],
)
def test_nothing_else_is_asked_for(crawled: Crawled, label: str, paths: list[str]) -> None:
    requested_paths = [path for _, path, _ in crawled.asked[f"{label}.downloads.test"]]
    assert sorted(requested_paths) == sorted(paths)


def test_crawl_trap_ends_at_the_limit_of_requests(crawled: Crawled) -> None:
    assert crawled.rows["trap.downloads.test"]["reason"] == "200 requests"
    assert len(crawled.asked["trap.downloads.test"]) == 200


def test_forbidden_requests_end_a_crawl_too(crawled: Crawled) -> None:
    assert crawled.rows["walls.downloads.test"]["reason"] == "1000 requests are forbidden"
    paths = [path for _, path, _ in crawled.asked["walls.downloads.test"]]
    assert len(paths) < 100 and not any(path.startswith("/closed") for path in paths)


@pytest.mark.parametrize(
    ("label", "reason"),
    [
        ("challenge", "cf-mitigated: challenge, 403"),
        ("challenge-robots", "cf-mitigated: challenge, 503"),
        ("captcha", "x-amzn-waf-action: captcha, 405"),
        ("interstitial", "x-amzn-waf-action: challenge, 202"),
    ],
)
def test_a_request_for_human_verification_has_its_field_as_the_reason(
    crawled: Crawled, label: str, reason: str
) -> None:
    row = crawled.rows[f"{label}.downloads.test"]
    assert row["reason"] == f"the server asks for human verification ({reason})"


def test_redirects_are_followed_five_times(crawled: Crawled) -> None:
    assert crawled.rows["redirects.downloads.test"]["reason"] == "more than 5 redirects"
    paths = [path for _, path, _ in crawled.asked["redirects.downloads.test"] if path != "/robots.txt"]
    assert paths == ["/", "/a", "/aa", "/aaa", "/aaaa", "/aaaaa"]


def test_unreadable_pages_are_reported(crawled: Crawled) -> None:
    row = crawled.rows["unknown-coding.downloads.test"]
    assert row["reason"] == "a page has a content coding that cannot be read: x-lab"


def test_certificate_of_another_name_is_no_answer(crawled: Crawled) -> None:
    # VerificationError, or the words of the library below
    assert "erif" in crawled.rows["other-name.downloads.test"]["reason"]
    assert crawled.asked["other-name.downloads.test"] == []
