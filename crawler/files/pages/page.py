"""Finds links in a page: files that may be large enough, and pages to follow."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from crawler.files.limits import Limits
from crawler.files.pages import charset, urls
from crawler.files.pages.tags import tags

# File name endings to download, not to follow. The first group is most likely to be large.
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
    """A page's links, each URL once, in the order of the requests."""

    files: list[str] = field(default_factory=list)
    pages: list[str] = field(default_factory=list)
    unusable: int = 0
    """Number of links that no client should follow (`urls.Unusable`)."""
    left_out: int = 0
    """Number of links beyond the limits per page."""


def links(body: bytes, url: str, limits: Limits, content_type: str = "") -> Links:
    """Return the links of the HTML page `body` at `url`, for any bytes, in linear time.

    `content_type`: the header field, which may contain the encoding. Files are the targets of img, link,
    script and media elements, and hrefs with a file name ending (docs/definitions.md, Crawl). Documents and
    archives come first, then images.
    """
    result = Links()
    text, encoding = charset.decoded(body, content_type)
    is_xml = content_type.lower().startswith("application/xhtml+xml")
    base_reference, references, result.left_out = _references(text, limits, is_xml=is_xml)
    base = _base(base_reference, url, limits, encoding)
    files: dict[str, int] = {}
    pages: dict[str, None] = {}
    for tag, reference in references:
        try:
            link = urls.absolute(base, reference, limits.url_characters, encoding)
        except urls.Unusable:
            result.unusable += 1
            continue
        extension = urlsplit(link).path.rpartition("/")[2].rpartition(".")[2].lower()
        if tag in _FOLLOWED and extension not in _RANK:
            pages.setdefault(link)
        else:
            files.setdefault(link, _RANK.get(extension, 2))
    ranked = sorted(files, key=lambda link: files[link])
    result.files = ranked[: limits.files_per_page]
    result.pages = list(pages)[: limits.pages_per_page]
    result.left_out += len(files) + len(pages) - len(result.files) - len(result.pages)
    return result


def _base(reference: str, url: str, limits: Limits, encoding: str) -> str:
    """Return the base URL for references: from the first base element, else the page's URL."""
    try:
        return urls.absolute(url, reference, limits.url_characters, encoding) if reference else url
    except urls.Unusable:
        return url


def _references(text: str, limits: Limits, *, is_xml: bool) -> tuple[str, list[tuple[str, str]], int]:
    """Return the first base element's href, the distinct (tag, reference) pairs, and the number omitted."""
    base: str | None = None
    references: dict[tuple[str, str], None] = {}
    left_out = set[int]()  # hashes: the references themselves may be long
    for tag, attributes in tags(text, is_xml=is_xml):
        if tag == "base" and base is None:
            base = attributes.get("href")
        reference = attributes.get(_ATTRIBUTES.get(tag, ""))
        if not reference or (tag, reference) in references:
            continue
        if len(references) < limits.references_per_page:
            references[tag, reference] = None
        else:
            left_out.add(hash((tag, reference)))
    return base or "", list(references), len(left_out)
