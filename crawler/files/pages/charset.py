"""Decodes pages like browsers (WHATWG: Encoding Standard; HTML Standard, section 13.2.3).

webencodings provides the labels of the Encoding Standard. w3lib, which Scrapy uses, decodes: it replaces an
invalid byte by U+FFFD and continues.
"""

from __future__ import annotations

import codecs
import re

import webencodings
from w3lib.encoding import read_bom, resolve_encoding, to_unicode

from crawler.files.pages.tags import tags

_SPACE = r"[\t\n\f\r ]*"
_HEADER = re.compile(rf';{_SPACE}charset{_SPACE}={_SPACE}(?:"([^"]*)"|([^\t\n\f\r ;,"]*))', re.IGNORECASE)
_META = re.compile(rf"""charset{_SPACE}={_SPACE}(?:"([^"]*)"|'([^']*)'|([^\t\n\f\r ;"']*))""", re.IGNORECASE)
# Browsers start again with the right encoding if they find it after the standard's first 1,024 bytes.
_LOOKED_AT = 65_536
_XML = re.compile(rb"""<\?xml[^>]*?encoding[\t\n\f\r ]*=[\t\n\f\r ]*["']([^"'>]*)""")
_DIFFERENT = {"iso-8859-8-i": "iso8859-8", "x-mac-cyrillic": "mac-cyrillic", "ibm866": "cp866"}
"""The standard's names for encodings that have other names in Python. w3lib does not translate them."""
# The position before an escape sequence that selects another character set.
_ESCAPE = re.compile(rb"(?=\x1b[($])")
# Encodings that a meta element cannot declare, because it would be unreadable in them (HTML Standard, section
# 13.2.3.2), with their replacements.
_INSTEAD = {"utf-16le": "utf-8", "utf-16be": "utf-8", "x-user-defined": "windows-1252"}


def decoded(body: bytes, content_type: str = "") -> tuple[str, str]:
    """Return a page's text, and the encoding of queries in the links (Python's name).

    A byte order mark takes precedence over the header field `content_type`, which takes precedence over a
    declaration in the page. Without any of these, the encoding is UTF-8 if all bytes are valid UTF-8, else
    windows-1252. Never raises.
    """
    mark, bom = read_bom(body)
    if mark is not None and bom is not None and not mark.startswith("utf-32"):
        return to_unicode(body[len(bom) :], mark), "utf-8"
    name = _of_header(content_type) or _of_page(body)
    if name is None:
        name = "utf-8" if _is_utf_8(body) else "windows-1252"
    if name == "replacement":  # stands for encodings that are unsafe to decode
        return "\ufffd" if body else "", "utf-8"
    if name == "x-user-defined":
        return webencodings.decode(body, name)[0], "utf-8"
    if name == "iso-2022-jp":
        return _of_iso_2022_jp(body), "iso2022_jp"
    codec = resolve_encoding(_DIFFERENT.get(name, name)) or "utf-8"
    return to_unicode(body, codec), "utf-8" if codec.startswith("utf") else codec


def _of_iso_2022_jp(body: bytes) -> str:
    """Decode part by part: after half a character, Python overlooks an escape sequence."""
    parts = _ESCAPE.split(body)
    return "".join(to_unicode(part, "iso2022_jp_ext") for part in parts)


def _of_header(content_type: str) -> str | None:
    match = _HEADER.search(content_type)
    return None if match is None else _encoding_name(match[1] or match[2])


def _of_page(body: bytes) -> str | None:
    """Return the encoding in a meta element, else the encoding in an XML declaration."""
    for tag in tags(body[:_LOOKED_AT].decode("latin-1")):
        if tag.name != "meta":
            continue
        label = tag.attributes.get("charset")
        if label is None and tag.attributes.get("http-equiv", "").lower() == "content-type":
            match = _META.search(tag.attributes.get("content", ""))
            label = match and (match[1] or match[2] or match[3])
        name = _encoding_name(label)
        if name is not None:
            return _INSTEAD.get(name, name)
    declared = _XML.match(body, 0, 1024)
    name = None if declared is None else _encoding_name(declared[1].decode("latin-1"))
    return None if name is None else _INSTEAD.get(name, name)


def _encoding_name(label: str | None) -> str | None:
    """Return the standard's name of the encoding with this label; `None` for an unknown label."""
    if not label or not label.isascii():
        return None
    encoding = webencodings.lookup(label)
    return None if encoding is None else str(encoding.name)


def _is_utf_8(body: bytes) -> bool:
    """Return whether all bytes are valid UTF-8. The last character may be truncated."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(body)
    except UnicodeDecodeError:
        return False
    return True
