"""robots.txt by RFC 9309: status, groups, the longest match, and unreadable files."""

from __future__ import annotations

import pytest

from crawler.files.pages import robots

URL = "https://a.test/files/x.pdf?y=1"


@pytest.mark.parametrize(
    ("status", "state"),
    [
        *((200, "rules"), (206, "rules"), (400, "none"), (401, "none"), (403, "none"), (404, "none")),
        *((410, "none"), (451, "none"), (429, "unreachable"), (500, "unreachable"), (503, "unreachable")),
        *((304, "unreachable"), (102, "unreachable"), (600, "unreachable")),
    ],
)
def test_the_status_decides_which_rules_apply(status: int, state: str) -> None:
    rules = robots.of_answer(status, b"User-agent: *\nDisallow: /files\n", is_whole=True)
    assert rules.state == state
    assert rules.allows("https://a.test/") == (state != "unreachable")
    assert rules.allows(URL) == (state == "none")


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("", True),
        ("User-agent: *\nDisallow:\n", True),
        ("User-agent: *\nDisallow: /\n", False),
        ("User-agent: *\r\nDisallow: /\r\n", False),
        ("\ufeffUser-agent: *\nDisallow: /\n", False),
        ("Disallow: /\n", True),  # in no group
        ("User-agent: other\nDisallow: /\n", True),
        ("User-agent: other\nUser-agent: FirstFlight\nDisallow: /\n", False),
        ("User-agent: firstflight/2.0 (comment)\nDisallow: /\n", False),
        # A group must match the whole product token, not just its start.
        ("User-agent: first\nDisallow: /\n\nUser-agent: *\nAllow: /\n", True),
        ("User-agent: firstflight-images\nDisallow: /\n", True),
        # Our group has precedence over `*` at any position in the file. Two groups for us are merged.
        ("User-agent: *\nDisallow: /\n\nUser-agent: firstflight\nDisallow: /other\n", True),
        ("User-agent: firstflight\nAllow: /x\n\nUser-agent: firstflight\nDisallow: /files\n", False),
        # The longest match wins; of equals, Allow.
        ("User-agent: *\nAllow: /files/x\nDisallow: /files\n", True),
        ("User-agent: *\nAllow: /files\nDisallow: /files/x\n", False),
        ("User-agent: *\nAllow: /files\nDisallow: /files\n", True),
        ("User-agent: *\nDisallow: /*.pdf\n", False),
        ("User-agent: *\nDisallow: /*.pdf$\n", True),
        ("User-agent: *\nDisallow: /files/%78.pdf\n", False),
        ("User-agent: *\nDisallow: /FILES\n", True),
        ("<html>not found</html>", True),
        ("\x00\xff" * 100, True),
    ],
)
def test_rules_of_a_complete_file(text: str, allowed: bool) -> None:
    rules = robots.of_answer(200, text.encode("utf-8", "surrogateescape"), is_whole=True)
    assert rules.allows(URL) == allowed


def test_last_line_of_a_cut_file_is_no_rule() -> None:
    """Of `Disallow: /files/other` there may be only `Disallow: /files`."""
    text = b"User-agent: *\nDisallow: /private\nDisallow: /files"
    assert not robots.of_answer(200, text, is_whole=True).allows(URL)
    cut = robots.of_answer(200, text, is_whole=False)
    assert cut.allows(URL) and not cut.allows("https://a.test/private/x")
    assert robots.of_answer(200, b"User-agent: *", is_whole=False).allows(URL)


def test_a_body_in_a_coding_that_is_not_read_is_unreachable() -> None:
    assert robots.of_answer(200, None, is_whole=True) is robots.UNREACHABLE
    assert not robots.ELSEWHERE.allows(URL) and not robots.UNREACHABLE.allows(URL)


def test_half_a_megabyte_of_rules_is_one_decision() -> None:
    """Rules with many stars take longest. A backtracking match would not finish."""
    rule = "Disallow: /" + "*a" * 200 + "$\n"
    rules = robots.of_answer(200, ("User-agent: *\n" + rule * 1000).encode(), is_whole=True)
    assert rules.allows("https://a.test/" + "a" * 1500 + "b")
