"""Pages as servers send them: which links each has, by the standards that browsers follow.

Each row tests a kind of page that was once read wrongly. To add a case from the field, add a row with the
bytes (or a small file in `data/`), the links that a browser finds, and the source of the expectation.
"""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from time import process_time
from typing import NamedTuple

import pytest

from crawler.files.fetching import coding
from crawler.files.limits import Limits
from crawler.files.pages import page, urls

DATA = Path(__file__).with_name("data")
BASE = "https://a.test/"
AB = ["/a.zip", "/b.zip"]
ENCODING = "WHATWG Encoding Standard"
HTML = "HTML Standard"
URL = "WHATWG URL Standard"


class PageCase(NamedTuple):
    """A page and the files that it links to. `content_type`: the header field."""

    kind: str
    body: bytes
    files: list[str]
    source: str
    content_type: str = "text/html"


def charset(label: str, between: bytes) -> bytes:
    """Return a page that declares an encoding, with bytes between two links."""
    head = b"<meta charset=" + label.encode() + b"><title>" + between + b"</title>"
    return head + b"<a href=/a.zip>a</a>" + between + b"<a href=/b.zip>b</a>"


def link(reference: bytes, head: bytes = b"") -> bytes:
    """Return a page with one link."""
    return head + b'<a href="' + reference + b'">'


UMLAUT = "/\u00e4.zip".encode()
CASES = [
    *(PageCase(path.stem, path.read_bytes(), AB, ENCODING) for path in sorted(DATA.glob("04-*.html"))),
    # A byte that the encoding lacks, or a character that only the superset has, for labels of section 4.2.
    *(
        PageCase(f"{label} with {between!r}", charset(label, between), AB, f"{ENCODING} 4.2")
        for label, between in (
            ("gb_2312-80", b"\xe9F"),
            ("x-gbk", b"\x80\xff"),
            ("GBK", b"\x81"),
            ("gb18030", b"\x810\x81"),
            ("x-sjis", b"\x87@"),
            ("windows-31j", b"\xff"),
            ("ms_kanji", b"\x85"),
            ("windows-949", b"\x81A\xff"),
            ("KSC5601", b"\xff\x81"),
            ("big5-hkscs", b"\x87@\xff"),
            ("cn-big5", b"\x80"),
            ("euc-jp", b"\xad\xa1\xff"),
            ("x-euc-jp", b"\x8f"),
            ("iso-2022-jp", b"\x1b$B$\x1b(B"),
            ("csISO2022JP", b"\x1b(I1\x1b(B\xff"),
            ("iso-8859-1", b"\x81\x9f"),
            ("latin1", b"\x80"),
            ("l1", b"\x80"),
            ("iso-8859-8-i", b"\xa1"),
            ("logical", b"\xff"),
            ("x-mac-cyrillic", b"\xff"),
            ("cp1251", b"\x98"),
            ("dos-874", b"\xdb"),
            ("koi", b"\xff"),
            ("ibm866", b"\xff"),
            ("unicode-1-1-utf-8", b"\xff\xfe"),
            ("utf8", b"\xed\xa0\x80"),
            ("x-user-defined", b"\xff"),
            ("utf-16be", b"\xff"),
            # Names of Python's codecs that are no labels of the standard: the declaration is ignored.
            ("utf-7", b"+ADw-"),
            ("hex", b"\xff"),
            ("rot13", b"\xff"),
            ("idna", b"\xff"),
            ("undefined", b"\xff"),
            ("no-such", b"\xff"),
        )
    ),
    PageCase(
        "ks_c_5601-1987 by http-equiv",
        b"<meta http-equiv=Content-Type content='text/html; charset=ks_c_5601-1987'>"
        + link(b"/\xb0\xa1.zip"),
        ["/%EA%B0%80.zip"],
        f"{HTML} 2.7.5",
    ),
    PageCase("replacement", charset("hz-gb-2312", b"~{"), [], f"{ENCODING} 14.1"),
    # Which declaration counts.
    *(
        PageCase(kind, body, ["/%C3%A4.zip"], f"{HTML} 13.2.3", content_type)
        for kind, body, content_type in (
            ("UTF-8 in Content-Type alone", link(UMLAUT), "text/html; charset=utf-8"),
            ("quoted in Content-Type", link(UMLAUT), 'text/html;x=y; charset="UTF-8"'),
            (
                "UTF-8 behind a title",
                link(UMLAUT, b"<title>\xc3\xa4</title><meta charset=utf-8>"),
                "text/html",
            ),
            ("no declaration", link(UMLAUT), "text/html"),
            ("no Content-Type", link(UMLAUT), ""),
            ("byte order mark first", link(UMLAUT, b"\xef\xbb\xbf"), "text/html; charset=gbk"),
            ("Content-Type before meta", link(UMLAUT, b"<meta charset=gbk>"), "text/html; charset=utf-8"),
            ("unknown in Content-Type", link(UMLAUT, b"<meta charset=utf-8>"), "text/html; charset=x"),
            ("commented out", link(UMLAUT, b"<!-- <meta charset=gbk> --><meta charset=utf-8>"), ""),
            ("a late meta", link(UMLAUT, b"<!--" + b" " * 3000 + b"--><meta charset=utf-8>"), ""),
            ("latin-1", link(b"/\xe4.zip", b"<meta charset=latin1>"), ""),
            ("latin-1 without declaration", link(b"/\xe4.zip"), ""),
            ("utf-16 with its mark", "\ufeff<a href=/\u00e4.zip>".encode("utf-16-le"), "text/html"),
            (
                "utf-16 in Content-Type",
                "<a href=/\u00e4.zip>".encode("utf-16-le"),
                "text/html; charset=utf-16",
            ),
            ("percent-encoded", link(b"/%C3%A4.zip"), ""),
            ("XML declaration", b'<?xml version="1.0" encoding="latin1"?>' + link(b"/\xe4.zip"), "text/html"),
            ("meta, not XML", b"<?xml encoding='gbk'?>" + link(UMLAUT, b"<meta charset=utf-8>"), "text/html"),
        )
    ),
    # A query is written in the page's encoding, a path in UTF-8.
    PageCase(
        "query in gbk", link(b"/\xc4\xe3.zip?\xc4\xe3", b"<meta charset=gbk>"), ["/%E4%BD%A0.zip?%C4%E3"], URL
    ),
    PageCase(
        "query that the encoding lacks",
        link(b"/a.zip?&#x4f60;", b"<meta charset=latin1>"),
        ["/a.zip?%26%2320320%3B"],
        URL,
    ),
    PageCase("query of utf-16", "\ufeff<a href=/a.zip?\u00e4>".encode("utf-16-le"), ["/a.zip?%C3%A4"], URL),
    PageCase(
        "XHTML",
        b"<script src='/a.zip'/><title/><style><![CDATA[<a href='/c.zip'/>]]></style><a href='/b.zip'/>",
        AB,
        "XML 1.0",
        "application/xhtml+xml",
    ),
    # Markup.
    *(
        PageCase(kind, body, files, f"{HTML} 13.2.5")
        for kind, body, files in (
            ("reference in an attribute", link(b"/a.zip?x=1&amp;y=2"), ["/a.zip?x=1&y=2"]),
            ("ampersand of a query", link(b"/a.zip?x=1&copy=2&notit=3"), ["/a.zip?x=1&copy=2&notit=3"]),
            ("numeric reference", link(b"&#47;a&#x2e;zip"), ["/a.zip"]),
            ("repeated attribute", b"<a href=/a.zip href=/b.zip>", ["/a.zip"]),
            ("upper case", b"<A HREF=/a.zip><IMG SRC='/b.zip'>", AB),
            ("space around =", b"<a\nhref\t=\n'/a.zip'>", ["/a.zip"]),
            ("no space between attributes", b'<a class="x"href="/a.zip"title=y>', ["/a.zip"]),
            ("slash instead of space", b"<a/href=/a.zip><img/src='/b.zip'/>", AB),
            (">in quotes", b"<a title='>' href=/a.zip><a title=\"'>\" href=/b.zip>", AB),
            ("= in front of a name", b"<a =href=/b.zip href=/a.zip>", ["/a.zip"]),
            ("tag that does not end", b"<a href=/a.zip><a href=/b.zip", ["/a.zip"]),
            ("quote that does not end", b"<a href=/a.zip><a href='/b.zip><a href=/c.zip>", ["/a.zip"]),
            ("script", b"<script>'<a href=/c.zip>'</script><a href=/a.zip>", ["/a.zip"]),
            (
                "script in a comment of a script",
                b"<script><!-- <script>'<a href=/c.zip>'</script> --></script><a href=/a.zip>",
                ["/a.zip"],
            ),
            ("text of a title", b"<title><a href=/c.zip></title><a href=/a.zip>", ["/a.zip"]),
            ("style that does not end", b"<a href=/a.zip><style><a href=/c.zip>", ["/a.zip"]),
            ("end tag with attributes", b"<style></style x='>'><a href=/a.zip>", ["/a.zip"]),
            ("noscript", b"<noscript><img src=/a.png></noscript>", ["/a.png"]),
            ("comments", b"<!--> <a href=/a.zip> <!--x--!><a href=/b.zip><!-- <a href=/c.zip>", AB),
            ("declarations", b"<!DOCTYPE x><?x <a href=/c.zip><![CDATA[ > <a href=/a.zip>", ["/a.zip"]),
            ("closed title of SVG", b"<svg><title/><style/></svg><a href=/a.zip>", ["/a.zip"]),
            ("CDATA of SVG", b"<svg><![CDATA[<a href=/c.zip>]]></svg><a href=/a.zip>", ["/a.zip"]),
            ("unclosed SVG", b"<svg><p><style><a href=/c.zip></style><a href=/a.zip>", ["/a.zip"]),
            ("NUL", b"<a href=/a.zip>\0<a href=/b.zip>", AB),
        )
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.kind)
def test_links_of_a_page_are_those_that_a_browser_finds(case: PageCase) -> None:
    found = page.links(case.body, BASE, Limits(), case.content_type)
    assert [url.removeprefix("https://a.test") for url in found.files] == case.files, case.source


@pytest.mark.parametrize(
    ("field", "url"),
    [
        ("/\u00e4?\u00e4".encode(), "https://a.test/%C3%A4?%C3%A4"),
        ("https://b\u00fccher.test/".encode(), "https://xn--bcher-kva.test/"),
        (b"/\xe4?\xe4", "https://a.test/%E4?%E4"),  # no UTF-8: byte by byte
        (b"/%C3%A4", "https://a.test/%C3%A4"),
        (b"/a b", "https://a.test/a%20b"),
    ],
)
def test_a_redirect_leads_where_browsers_go(field: bytes, url: str) -> None:
    """Fetch Standard, location URL: the URL has the same bytes as the field."""
    assert urls.absolute(BASE, urls.of_header(field), 2000) == url


PAGE = b"<a href=/a.zip>"


def zipped(content: bytes) -> bytes:
    """Return `content` as gzip without a time: names of tests must not change."""
    return gzip.compress(content, mtime=0)


def raw(body: bytes) -> bytes:
    """Return a deflate stream without the header of zlib, as some servers send it."""
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(body) + packer.flush()


@pytest.mark.parametrize(
    ("field", "body", "content"),
    [
        ("gzip", zipped(PAGE), PAGE),
        ("X-GZIP", zipped(PAGE), PAGE),
        ("deflate", zlib.compress(PAGE), PAGE),
        ("deflate", raw(PAGE), PAGE),
        ("identity, gzip", zipped(PAGE), PAGE),
        ("", PAGE, PAGE),
        ("gzip", zipped(PAGE)[:-9], PAGE),  # cut
        ("gzip", zipped(b"x" * 5_000_000), b"x" * 1_000_000),  # a bomb
        ("gzip", zipped(PAGE) * 2, PAGE),
        ("gzip", PAGE, None),
        ("br", PAGE, None),
        ("gzip, gzip", zipped(zipped(PAGE)), None),
    ],
)
def test_codings_that_were_not_requested(field: str, body: bytes, content: bytes | None) -> None:
    """RFC 9110 8.4.1."""
    assert coding.decoded(body, field, 1_000_000) == content


MB = 1_000_000


@pytest.mark.parametrize(
    "piece",
    [
        *(b"a=1 ", b"<a>", b"<", b"<!--", b"<!-->", b"<title>", b"<script><!--<script>", b"<svg><![CDATA["),
        *(
            b"<a b='",
            b"= ",
            b"&",
            b"&amp;",
            b"<div>",
            b"</a b=c",
            b"\x80",
            b"<meta charset=x>",
            b"<base href=x>",
        ),
        b"<a href='&amp'>",
    ],
)
def test_a_page_takes_time_in_proportion_to_its_size(piece: bytes) -> None:
    """Ten times as many bytes take about ten times as long, whatever is repeated; libxml2 took 60 s."""
    times = []
    for size in (MB // 20, MB // 2):
        begin = process_time()
        page.links(b"<a " + piece * (size // len(piece)), BASE, Limits(), "text/html; charset=iso-2022-jp")
        times.append(process_time() - begin)
    assert times[1] < max(25 * times[0], 0.2)
