"""The links of a page: files to ask for their size, and pages to follow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from lxml import etree

from crawler.files import urls
from crawler.files.limits import Limits

# Endings of what is downloaded, not followed; the first are the likeliest to be large.
_DOCUMENTS = (
    *("pdf", "zip", "gz", "tgz", "bz2", "xz", "7z", "exe", "msi", "dmg", "deb", "rpm", "apk", "iso", "bin"),
    *("mp4", "webm", "mov", "mp3", "wav", "ogg", "ppt", "pptx", "doc", "docx", "xls", "xlsx", "epub", "csv"),
)
_IMAGES = ("jpg", "jpeg", "png", "gif", "webp", "avif", "svg", "bmp", "tif", "tiff", "ico")
_PARTS = ("js", "css", "json", "xml", "wasm", "woff", "woff2", "ttf", "txt")
_RANK = {**dict.fromkeys(_DOCUMENTS, 0), **dict.fromkeys(_IMAGES, 1), **dict.fromkeys(_PARTS, 2)}
_ATTRIBUTES = {
    "a": "href",
    "area": "href",
    "img": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "embed": "src",
    "script": "src",
    "link": "href",
}
_FOLLOWED = ("a", "area")


@dataclass
class Links:
    """What a page links to, each URL once, in the order in which it is asked for."""

    files: list[str] = field(default_factory=list)
    pages: list[str] = field(default_factory=list)
    unusable: int = 0
    """Links that no client should follow (`urls.Unusable`)."""
    left_out: int = 0
    """Links beyond the limits per page."""


def links(body: bytes, url: str, limits: Limits) -> Links:
    """Return the links of the HTML page `body` at `url`, whatever its bytes are.

    Files are what img, link, script and media elements name, and hrefs with the ending of a file (docs/
    definitions.md, Crawl); those of documents and archives come first, then images.
    """
    found = Links()
    root = _parsed(body)
    if root is None:
        return found
    base = _base(root, url, limits)
    files: dict[str, int] = {}
    pages: dict[str, None] = {}
    seen = set[tuple[str, str]]()
    for one in _references(root):
        if one in seen:
            continue
        seen.add(one)
        if len(seen) > limits.references_per_page:
            continue
        tag, reference = one
        try:
            link = urls.absolute(base, reference, limits.url_characters)
        except urls.Unusable:
            found.unusable += 1
            continue
        ending = urlsplit(link).path.rpartition("/")[2].rpartition(".")[2].lower()
        if tag in _FOLLOWED and ending not in _RANK:
            pages.setdefault(link)
        else:
            files.setdefault(link, _RANK.get(ending, 2))
    ranked = sorted(files, key=lambda link: files[link])
    found.files = ranked[: limits.files_per_page]
    found.pages = list(pages)[: limits.pages_per_page]
    found.left_out = len(files) + len(pages) - len(found.files) - len(found.pages)
    found.left_out += max(0, len(seen) - limits.references_per_page)
    return found


def _parsed(body: bytes) -> Any:
    """Return the root element of a page; None if there is none."""
    if not body.strip():
        return None
    # No network, no entities, and libxml2's own limits on depth and size of text.
    parser = etree.HTMLParser(no_network=True, recover=True, huge_tree=False, remove_comments=True)
    try:
        return etree.fromstring(body, parser)
    except (etree.LxmlError, ValueError):
        return None


def _base(root: Any, url: str, limits: Limits) -> str:
    """Return the URL that references are relative to: the first base element's, else the page's."""
    reference = root.xpath("string((//base/@href)[1])")
    try:
        return urls.absolute(url, reference, limits.url_characters) if reference else url
    except urls.Unusable:
        return url


def _references(root: Any) -> Iterator[tuple[str, str]]:
    """Yield (tag, reference) of a page's elements in order."""
    for element in root.iter(*_ATTRIBUTES):
        reference = element.get(_ATTRIBUTES[element.tag])
        if reference:
            yield str(element.tag), str(reference)
