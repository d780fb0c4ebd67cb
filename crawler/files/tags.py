"""The start tags of an HTML text, by the tokeniser of the HTML Standard (section 13.2.5), in linear time.

It makes no tree. libxml2's parser takes quadratic time for an element with many attributes, and so do others,
so that one page could stop a crawl. Here no character is looked at more often than a few times.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from html.entities import html5
from typing import NamedTuple

ATTRIBUTES = frozenset({"href", "src", "charset", "content", "http-equiv"})
"""Names of the attributes that are kept."""

_SPACE = r"\t\n\f\r "
_BEGIN = re.compile(r"<(?=[a-zA-Z/!?])")
_NAME = re.compile(rf"[a-zA-Z][^{_SPACE}/>]*+")
# What separates attributes; then the name of one, which may begin with `=`.
_ATTRIBUTE = re.compile(rf"[{_SPACE}/]*+([^{_SPACE}/>][^{_SPACE}/>=]*+)")
_EQUALS = re.compile(rf"[{_SPACE}]*+=[{_SPACE}]*+")
_UNQUOTED = re.compile(rf"[^{_SPACE}>]*+")
_BETWEEN = re.compile(rf"[{_SPACE}/]*+")
_COMMENT_END = re.compile(r"--!?>")
_REFERENCE = re.compile(r"&(?:#[xX]?[0-9a-fA-F]++|[a-zA-Z][a-zA-Z0-9]*+);?")
# Elements whose content is text (sections 13.2.5.2 to 13.2.5.5), and where each ends. A crawler runs no
# scripts, so noscript is no such element.
_TEXT = ("script", "style", "title", "textarea", "xmp", "iframe", "noembed", "noframes")
_TEXT_END = {name: re.compile(rf"</{name}(?=[{_SPACE}/>])", re.IGNORECASE | re.ASCII) for name in _TEXT}
_SCRIPT_PART = re.compile(rf"<!--|-->|<(/?)script(?=[{_SPACE}/>])", re.IGNORECASE | re.ASCII)
_FOREIGN = ("svg", "math")
# Tags that end foreign content (section 13.2.6.5).
_BREAK_OUT = frozenset(
    (
        *("b", "big", "blockquote", "body", "br", "center", "code", "dd", "div", "dl", "dt", "em", "embed"),
        *("h1", "h2", "h3", "h4", "h5", "h6", "head", "hr", "i", "img", "li", "listing", "menu", "meta"),
        *("nobr", "ol", "p", "pre", "ruby", "s", "small", "span", "strong", "strike", "sub", "sup"),
        *("table", "tt", "u", "ul", "var"),
    )
)


class Tag(NamedTuple):
    """A start tag: name in lower case, and its first attribute of each name in ATTRIBUTES."""

    name: str
    attributes: dict[str, str]


def tags(text: str, *, is_xml: bool = False) -> Iterator[Tag]:
    """Yield the start tags of `text`, which may be cut anywhere; a tag that does not end is none.

    `is_xml`: the text is XHTML, where no element has only text, and `<script/>` is a whole element.
    """
    place = 0
    # The element of SVG or MathML that the text is within: the same holds there.
    foreign: str | None = "" if is_xml else None
    while less_than := _BEGIN.search(text, place):
        begin = less_than.start()
        is_end = text.startswith("/", begin + 1)
        match = _NAME.match(text, begin + 1 + is_end)
        if match is None:
            place = _behind_markup(text, begin, is_foreign=foreign is not None)
            continue
        name = match[0].lower()
        attributes, place = _attributes(text, match.end())
        if place > len(text):
            return
        if is_end:
            foreign = None if name == foreign else foreign
            continue
        yield Tag(name, attributes)
        if is_xml:
            continue
        if name in _BREAK_OUT:
            foreign = None
        elif name in _FOREIGN and foreign is None and not text.startswith("/", place - 2):
            foreign = name
        elif foreign is None:
            place = _behind_text(text, place, name)


def _behind_markup(text: str, begin: int, *, is_foreign: bool) -> int:
    """Return where a comment, declaration or the like that begins at `begin` has ended."""
    if text.startswith("<!--", begin):
        for short in (">", "->"):
            if text.startswith(short, begin + 4):
                return begin + 4 + len(short)
        end = _COMMENT_END.search(text, begin + 4)
        return len(text) if end is None else end.end()
    if is_foreign and text.startswith("<![CDATA[", begin):
        return _behind(text, "]]>", begin)
    return _behind(text, ">", begin)


def _behind(text: str, end: str, begin: int) -> int:
    place = text.find(end, begin)
    return len(text) if place < 0 else place + len(end)


def _attributes(text: str, place: int) -> tuple[dict[str, str], int]:
    """Return the attributes of the tag whose name ends at `place`, and where the tag has ended.

    That is beyond the text if the tag does not end.
    """
    found: dict[str, str] = {}
    never = len(text) + 1
    while match := _ATTRIBUTE.match(text, place):
        place = match.end()
        value = ""
        if equals := _EQUALS.match(text, place):
            place = equals.end()
            quote = text[place : place + 1]
            if quote in ('"', "'"):
                end = text.find(quote, place + 1)
                if end < 0:
                    return found, never
                value, place = text[place + 1 : end], end + 1
            elif unquoted := _UNQUOTED.match(text, place):
                value, place = unquoted[0], unquoted.end()
        name = match[1].lower()
        if name in ATTRIBUTES and name not in found:
            found[name] = _REFERENCE.sub(_referred, value) if "&" in value else value
    if between := _BETWEEN.match(text, place):
        place = between.end()
    return found, place + 1 if text.startswith(">", place) else never


def _referred(reference: re.Match[str]) -> str:
    """Return the characters of a character reference in an attribute (section 13.2.5.73)."""
    written = reference[0]
    if written[1] == "#":
        # More digits than any character has.
        return unescape(written) if len(written) < 40 else "\ufffd"
    if not written.endswith(";") and reference.string.startswith("=", reference.end()):
        return written
    return html5.get(written[1:], written)


def _behind_text(text: str, place: int, name: str) -> int:
    """Return where the text of an element that begins at `place` ends, if the element has only text."""
    if name == "plaintext":
        return len(text)
    if name == "script":
        return _behind_script(text, place)
    if name not in _TEXT_END:
        return place
    end = _TEXT_END[name].search(text, place)
    return len(text) if end is None else end.start()


def _behind_script(text: str, place: int) -> int:
    """Return where a script ends: not within a script in a comment (sections 13.2.5.20 to 13.2.5.31)."""
    is_comment = is_inner = False
    for part in _SCRIPT_PART.finditer(text, place):
        if part[0] == "<!--":
            # `<!-->` and `<!--->` end it again, by the `-->` in them.
            is_comment = True
            if text.startswith((">", "->"), part.end()):
                is_comment = False
        elif part[0] == "-->":
            is_comment = is_inner = False
        elif not part[1]:
            is_inner = is_comment
        elif is_inner:
            is_inner = False
        else:
            return part.start()
    return len(text)
