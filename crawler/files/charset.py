"""The characters of a page, as browsers read them (WHATWG: Encoding Standard; HTML Standard, section 13.2.3).

webencodings knows the labels of the Encoding Standard. w3lib, which Scrapy uses, decodes: a byte that an
encoding lacks becomes U+FFFD, and the rest of the page is read.
"""

from __future__ import annotations

import codecs
import re

import webencodings
from w3lib.encoding import read_bom, resolve_encoding, to_unicode

from crawler.files.tags import tags

_SPACE = r"[\t\n\f\r ]*"
_HEADER = re.compile(rf';{_SPACE}charset{_SPACE}={_SPACE}(?:"([^"]*)"|([^\t\n\f\r ;,"]*))', re.IGNORECASE)
_META = re.compile(rf"""charset{_SPACE}={_SPACE}(?:"([^"]*)"|'([^']*)'|([^\t\n\f\r ;"']*))""", re.IGNORECASE)
# Browsers begin again with the right encoding if they find it later than the standard's 1,024 bytes.
_LOOKED_AT = 65_536
_XML = re.compile(rb"""<\?xml[^>]*?encoding[\t\n\f\r ]*=[\t\n\f\r ]*["']([^"'>]*)""")
_DIFFERENT = {"iso-8859-8-i": "iso8859-8", "x-mac-cyrillic": "mac-cyrillic", "ibm866": "cp866"}
"""Names of the standard that Python has in another way, and w3lib does not translate."""
# In front of an escape sequence that chooses another set of characters.
_ESCAPE = re.compile(rb"(?=\x1b[($])")
# What a meta element cannot name, since nobody would find it there (HTML Standard, section 13.2.3.2).
_INSTEAD = {"utf-16le": "utf-8", "utf-16be": "utf-8", "x-user-defined": "windows-1252"}


def decoded(body: bytes, content_type: str = "") -> tuple[str, str]:
    """Return the text of a page, and the name of the encoding that its links use in queries (Python's).

    `content_type`: the header field, which has precedence over what the page says, as a byte order mark has
    over both. Without any of them it is UTF-8 if all bytes are, else windows-1252. Never fails.
    """
    mark, bom = read_bom(body)
    if mark is not None and bom is not None and not mark.startswith("utf-32"):
        return to_unicode(body[len(bom) :], mark), "utf-8"
    name = _of_header(content_type) or _of_page(body)
    if name is None:
        name = "utf-8" if _is_utf_8(body) else "windows-1252"
    if name == "replacement":  # encodings that are unsafe to read
        return "\ufffd" if body else "", "utf-8"
    if name == "x-user-defined":
        return webencodings.decode(body, name)[0], "utf-8"
    if name == "iso-2022-jp":
        return _of_iso_2022_jp(body), "iso2022_jp"
    codec = resolve_encoding(_DIFFERENT.get(name, name)) or "utf-8"
    return to_unicode(body, codec), "utf-8" if codec.startswith("utf") else codec


def _of_iso_2022_jp(body: bytes) -> str:
    """Return the text, part by part: behind half a character Python overlooks an escape sequence."""
    parts = _ESCAPE.split(body)
    return "".join(to_unicode(part, "iso2022_jp_ext") for part in parts)


def _of_header(content_type: str) -> str | None:
    match = _HEADER.search(content_type)
    return None if match is None else _named(match[1] or match[2])


def _of_page(body: bytes) -> str | None:
    """Return the encoding that a meta element names, or else an XML declaration."""
    for tag in tags(body[:_LOOKED_AT].decode("latin-1")):
        if tag.name != "meta":
            continue
        label = tag.attributes.get("charset")
        if label is None and tag.attributes.get("http-equiv", "").lower() == "content-type":
            match = _META.search(tag.attributes.get("content", ""))
            label = match and (match[1] or match[2] or match[3])
        name = _named(label)
        if name is not None:
            return _INSTEAD.get(name, name)
    declared = _XML.match(body, 0, 1024)
    name = None if declared is None else _named(declared[1].decode("latin-1"))
    return None if name is None else _INSTEAD.get(name, name)


def _named(label: str | None) -> str | None:
    """Return the standard's name of the encoding with a label; None if it has none."""
    if not label or not label.isascii():
        return None
    encoding = webencodings.lookup(label)
    return None if encoding is None else str(encoding.name)


def _is_utf_8(body: bytes) -> bool:
    """Return whether all bytes are UTF-8; the last character may be cut."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(body)
    except UnicodeDecodeError:
        return False
    return True
