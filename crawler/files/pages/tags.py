"""Start tags of an HTML text, by the tokeniser of the HTML Standard (section 13.2.5), in linear time.

The tokeniser builds no tree. libxml2's parser and others take quadratic time for an element with many
attributes, so one page could stall a crawl. This one reads each character only a few times.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from html.entities import html5
from typing import NamedTuple

ATTRIBUTES = frozenset({"href", "src", "charset", "content", "http-equiv"})
"""Attributes to keep."""

_SPACE = r"\t\n\f\r "
_BEGIN = re.compile(r"<(?=[a-zA-Z/!?])")
_NAME = re.compile(rf"[a-zA-Z][^{_SPACE}/>]*+")
# Separators of attributes, then an attribute's name, which may start with `=`.
_ATTRIBUTE = re.compile(rf"[{_SPACE}/]*+([^{_SPACE}/>][^{_SPACE}/>=]*+)")
_EQUALS = re.compile(rf"[{_SPACE}]*+=[{_SPACE}]*+")
_UNQUOTED = re.compile(rf"[^{_SPACE}>]*+")
_SEPARATOR = re.compile(rf"[{_SPACE}/]*+")
_COMMENT_END = re.compile(r"--!?>")
_REFERENCE = re.compile(r"&(?:#[xX]?[0-9a-fA-F]++|[a-zA-Z][a-zA-Z0-9]*+);?")
# Elements that contain only text (sections 13.2.5.2 to 13.2.5.5), and the patterns of their end tags. A
# crawler runs no scripts, so noscript is not such an element.
_TEXT = ("script", "style", "title", "textarea", "xmp", "iframe", "noembed", "noframes")
_TEXT_END = {name: re.compile(rf"</{name}(?=[{_SPACE}/>])", re.IGNORECASE | re.ASCII) for name in _TEXT}
_SCRIPT_PART = re.compile(rf"<!--|-->|<(/?)script(?=[{_SPACE}/>])", re.IGNORECASE | re.ASCII)
_FOREIGN = ("svg", "math")
# Tags that close foreign content (section 13.2.6.5).
_BREAK_OUT = frozenset(
    (
        *("b", "big", "blockquote", "body", "br", "center", "code", "dd", "div", "dl", "dt", "em", "embed"),
        *("h1", "h2", "h3", "h4", "h5", "h6", "head", "hr", "i", "img", "li", "listing", "menu", "meta"),
        *("nobr", "ol", "p", "pre", "ruby", "s", "small", "span", "strong", "strike", "sub", "sup"),
        *("table", "tt", "u", "ul", "var"),
    )
)


class Tag(NamedTuple):
    """A start tag: the name in lower case, and the first value of each attribute in ATTRIBUTES."""

    name: str
    attributes: dict[str, str]


def tags(text: str, *, is_xml: bool = False) -> Iterator[Tag]:
    """Yield the start tags of `text`. The text may be truncated anywhere; an unclosed tag is skipped.

    `is_xml`: the text is XHTML. In XHTML, no element contains only text, and `<script/>` is a complete
    element.
    """
    position = 0
    # The enclosing SVG or MathML element, in which the XML rules apply.
    foreign: str | None = "" if is_xml else None
    while less_than := _BEGIN.search(text, position):
        begin = less_than.start()
        is_end = text.startswith("/", begin + 1)
        match = _NAME.match(text, begin + 1 + is_end)
        if match is None:
            position = _markup_end(text, begin, is_foreign=foreign is not None)
            continue
        name = match[0].lower()
        attributes, position = _attributes(text, match.end())
        if position > len(text):
            return
        if is_end:
            foreign = None if name == foreign else foreign
            continue
        yield Tag(name, attributes)
        if is_xml:
            continue
        if name in _BREAK_OUT:
            foreign = None
        elif name in _FOREIGN and foreign is None and not text.startswith("/", position - 2):
            foreign = name
        elif foreign is None:
            position = _text_end(text, position, name)


def _markup_end(text: str, begin: int, *, is_foreign: bool) -> int:
    """Return the end of a comment, declaration or similar markup that starts at `begin`."""
    if text.startswith("<!--", begin):
        for short_end in (">", "->"):
            if text.startswith(short_end, begin + 4):
                return begin + 4 + len(short_end)
        end = _COMMENT_END.search(text, begin + 4)
        return len(text) if end is None else end.end()
    if is_foreign and text.startswith("<![CDATA[", begin):
        return _position_after(text, "]]>", begin)
    return _position_after(text, ">", begin)


def _position_after(text: str, end: str, begin: int) -> int:
    position = text.find(end, begin)
    return len(text) if position < 0 else position + len(end)


def _attributes(text: str, position: int) -> tuple[dict[str, str], int]:
    """Return the attributes of a tag and the end of the tag. `position`: the end of the tag's name.

    For an unclosed tag, the end is after the end of the text.
    """
    attributes: dict[str, str] = {}
    unfinished = len(text) + 1
    while match := _ATTRIBUTE.match(text, position):
        position = match.end()
        value = ""
        if equals := _EQUALS.match(text, position):
            position = equals.end()
            quote = text[position : position + 1]
            if quote in ('"', "'"):
                end = text.find(quote, position + 1)
                if end < 0:
                    return attributes, unfinished
                value, position = text[position + 1 : end], end + 1
            elif unquoted := _UNQUOTED.match(text, position):
                value, position = unquoted[0], unquoted.end()
        name = match[1].lower()
        if name in ATTRIBUTES and name not in attributes:
            attributes[name] = _REFERENCE.sub(_decode_reference, value) if "&" in value else value
    if separator := _SEPARATOR.match(text, position):
        position = separator.end()
    return attributes, position + 1 if text.startswith(">", position) else unfinished


def _decode_reference(reference: re.Match[str]) -> str:
    """Decode a character reference in an attribute (section 13.2.5.73)."""
    written = reference[0]
    if written[1] == "#":
        # No character has this many digits.
        return unescape(written) if len(written) < 40 else "\ufffd"
    if not written.endswith(";") and reference.string.startswith("=", reference.end()):
        return written
    return html5.get(written[1:], written)


def _text_end(text: str, position: int, name: str) -> int:
    """Return the end of an element's text that starts at `position`, if the element contains only text."""
    if name == "plaintext":
        return len(text)
    if name == "script":
        return _script_end(text, position)
    if name not in _TEXT_END:
        return position
    end = _TEXT_END[name].search(text, position)
    return len(text) if end is None else end.start()


def _script_end(text: str, position: int) -> int:
    """Return the end of a script, outside of scripts in a comment (sections 13.2.5.20 to 13.2.5.31)."""
    is_comment = is_inner = False
    for match in _SCRIPT_PART.finditer(text, position):
        if match[0] == "<!--":
            # `<!-->` and `<!--->` also close the comment, by the `-->` in them.
            is_comment = True
            if text.startswith((">", "->"), match.end()):
                is_comment = False
        elif match[0] == "-->":
            is_comment = is_inner = False
        elif not match[1]:
            is_inner = is_comment
        elif is_inner:
            is_inner = False
        else:
            return match.start()
    return len(text)
