"""The links of a page: files to ask for their size, and pages to follow."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from crawler.files import charset, urls
from crawler.files.limits import Limits
from crawler.files.tags import tags

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


def links(body: bytes, url: str, limits: Limits, content_type: str = "") -> Links:
    """Return the links of the HTML page `body` at `url`, whatever its bytes are; in linear time.

    `content_type`: the header field, which may name the encoding. Files are what img, link, script and media
    elements name, and hrefs with the ending of a file (docs/definitions.md, Crawl); those of documents and
    archives come first, then images.
    """
    found = Links()
    text, encoding = charset.decoded(body, content_type)
    is_xml = content_type.lower().startswith("application/xhtml+xml")
    base_reference, references, found.left_out = _references(text, limits, is_xml=is_xml)
    base = _base(base_reference, url, limits, encoding)
    files: dict[str, int] = {}
    pages: dict[str, None] = {}
    for tag, reference in references:
        try:
            link = urls.absolute(base, reference, limits.url_characters, encoding)
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
    found.left_out += len(files) + len(pages) - len(found.files) - len(found.pages)
    return found


def _base(reference: str, url: str, limits: Limits, encoding: str) -> str:
    """Return the URL that references are relative to: the first base element's, else the page's."""
    try:
        return urls.absolute(url, reference, limits.url_characters, encoding) if reference else url
    except urls.Unusable:
        return url


def _references(text: str, limits: Limits, *, is_xml: bool) -> tuple[str, list[tuple[str, str]], int]:
    """Return the href of the first base element, each (tag, reference) once, and how many are left out."""
    base: str | None = None
    kept: dict[tuple[str, str], None] = {}
    left_out = set[int]()  # hashes: the references themselves may be long
    for tag, attributes in tags(text, is_xml=is_xml):
        if tag == "base" and base is None:
            base = attributes.get("href")
        reference = attributes.get(_ATTRIBUTES.get(tag, ""))
        if not reference or (tag, reference) in kept:
            continue
        if len(kept) < limits.references_per_page:
            kept[tag, reference] = None
        else:
            left_out.add(hash((tag, reference)))
    return base or "", list(kept), len(left_out)
