"""URLs of pages and redirects: the requested URLs, their form, and a page's links."""

from __future__ import annotations

import pytest

from crawler.files.limits import Limits
from crawler.files.pages import page, urls

BASE = "https://a.test/dir/page"


@pytest.mark.parametrize(
    ("reference", "url"),
    [
        ("x.pdf", "https://a.test/dir/x.pdf"),
        ("/x.pdf#part", "https://a.test/x.pdf"),
        ("//www.a.test/x", "https://www.a.test/x"),
        ("http://a.test/x", "https://a.test/x"),
        ("http://a.test:80/x", "https://a.test/x"),
        ("https://a.test:443/x", "https://a.test/x"),
        ("HTTPS://A.TEST/X", "https://a.test/X"),
        ("https://a.test", "https://a.test/"),
        ("https://a.test?q=1", "https://a.test/?q=1"),
        (" x y.pdf ", "https://a.test/dir/x%20y.pdf"),
        ("?q=1", "https://a.test/dir/page?q=1"),
        ("https://bücher.test/ä", "https://xn--bcher-kva.test/%C3%A4"),
    ],
)
def test_form_of_usable_links(reference: str, url: str) -> None:
    assert urls.absolute(BASE, reference, 2000) == url


@pytest.mark.parametrize(
    "reference",
    [
        *(
            "javascript:alert(1)",
            "data:text/html,x",
            "mailto:a@a.test",
            "ftp://a.test/x",
            "file:///etc/passwd",
        ),
        *("https://a.test:8443/x", "http://a.test:443/x", "https://a.test:99999/x", "https://a.test:x/"),
        *("https://me@a.test/x", "https://a:b@a.test/x", "https://@a.test/x"),
        *("https://198.18.0.1/x", "https://[2001:db8::1]/x", "https://0x7f.0.0.1/x", "https://2130706433/x"),
        *("https://[", "https://a..test/x", "x\r\nHost: b", "x\x00y", "a/" * 1001),
        "https://a.test/" + "ä" * 700,
    ],
)
def test_unusable_links(reference: str) -> None:
    with pytest.raises(urls.Unusable):
        urls.absolute(BASE, reference, 2000)


def test_files_come_first_by_their_ending_and_pages_in_order() -> None:
    body = b"""<html><head><link rel=stylesheet href=s.css><script src="/s.js"></script></head>
    <a href="two">2</a><a href="/one#a">1</a><a href="/one#b">1 again</a><img src=i.png><a href=d.PDF>d</a>
    <a>no</a><a href="">no</a><a href="javascript:0">no</a><video src="v.mp4"></video>
    <!-- <a href="hidden.pdf"> -->"""
    links = page.links(body, "https://a.test/", Limits())
    assert [url.removeprefix("https://a.test/") for url in links.files] == [
        *("d.PDF", "v.mp4", "i.png", "s.css", "s.js")
    ]
    assert links.pages == ["https://a.test/two", "https://a.test/one"]
    assert (links.unusable, links.left_out) == (1, 0)


@pytest.mark.parametrize(
    ("base", "link"),
    [
        ("", "https://a.test/dir/x.pdf"),
        ('<base href="/files/">', "https://a.test/files/x.pdf"),
        ('<base target=_top><base href="/files/"><base href="/other/">', "https://a.test/files/x.pdf"),
        ('<base href="up/here">', "https://a.test/dir/up/x.pdf"),
        ('<base href="http://cdn.test/">', "https://cdn.test/x.pdf"),
        ('<base href="">', "https://a.test/dir/x.pdf"),
        ('<base href="javascript:0">', "https://a.test/dir/x.pdf"),
        ('<base href="https://a.test:8443/">', "https://a.test/dir/x.pdf"),
        ('<!-- <base href="/files/"> -->', "https://a.test/dir/x.pdf"),
    ],
)
def test_references_are_relative_to_the_base_element(base: str, link: str) -> None:
    body = f"<html><head>{base}</head><a href='x.pdf'>x</a></html>".encode()
    assert page.links(body, BASE, Limits()).files == [link]


def test_links_of_a_page_are_limited() -> None:
    body = b"".join(b'<a href="/p%d"></a><img src="/i%d.png">' % (n, n) for n in range(500))
    links = page.links(body, BASE, Limits(files_per_page=7, pages_per_page=9))
    assert (len(links.files), len(links.pages), links.left_out) == (7, 9, 1000 - 16)


@pytest.mark.parametrize(
    ("body", "looked_at", "left_out"),
    [
        (b"<a href=a>" * 90_000, 1, 0),
        (b"".join(b"<a href=%d>" % number for number in range(60_000)), 5_000, 60_000 - 100),
        (b"<a href=a><area href=a><img src=a>" * 2, 3, 0),
    ],
)
def test_a_megabyte_of_references_is_looked_at_in_a_part_of_a_second(
    monkeypatch: pytest.MonkeyPatch, body: bytes, looked_at: int, left_out: int
) -> None:
    """The next page waits for this one, whatever name it is of."""
    calls = []
    absolute = urls.absolute

    def counted(base: str, reference: str, most_characters: int, encoding: str) -> str:
        calls.append(reference)
        return absolute(base, reference, most_characters, encoding)

    monkeypatch.setattr(urls, "absolute", counted)
    links = page.links(body, BASE, Limits())
    assert (len(calls), links.left_out) == (looked_at, left_out)


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"   ", b"\x00" * 1000, b"\xff\xfe\xfd" * 100, b"<", b"<!DOCTYPE", b"<?xml version='1.0'?>"),
        b"<div>" * 100_000,
        b'<a href="' + b"x" * 1_000_000,
        b"<!DOCTYPE x [<!ENTITY e SYSTEM 'file:///etc/passwd'>]><a href='&e;'>",
    ],
)
def test_any_bytes_are_a_page(body: bytes) -> None:
    assert page.links(body, BASE, Limits()).files == []


def test_page_in_another_encoding() -> None:
    body = '<meta charset="utf-16"><a href="/x.pdf">'.encode("utf-16")
    assert page.links(body, "https://a.test/", Limits()).files in ([], ["https://a.test/x.pdf"])
