"""Makes a matplotlib figure a piece of a page: plain SVG with text, a title, and no style of its own.

A page under a strict content policy runs no inline style, and several figures share one page: so style
attributes become presentation attributes, identifiers get a prefix, and style sheet and metadata go.
"""

from __future__ import annotations

import io
import re
from xml.etree import ElementTree

import matplotlib
from matplotlib.figure import Figure

_SVG = "http://www.w3.org/2000/svg"
_XLINK = "{http://www.w3.org/1999/xlink}href"
_FONT = re.compile(r"(?:(?P<weight>bold|\d{3})\s+)?(?P<size>[\d.]+)px\b")
_DROPPED = {"font-family", "font-style"}  # the page's own; only upright text is drawn

ElementTree.register_namespace("", _SVG)


def inline(figure: Figure, name: str, title: str, description: str) -> str:
    """The figure as an <svg> element; `name` is unlike that of every other figure of the page."""
    out = io.BytesIO()
    # Text stays text; identifiers depend on `name` alone and no date is written: same figure, same bytes.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name, "text.parse_math": False}):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    root = ElementTree.fromstring(out.getvalue())
    _drop(root)
    _rename(root, name)
    for element in root.iter():
        _plain_style(element)
    box = root.get("viewBox", "")
    root.attrib.clear()
    root.attrib |= {
        "viewBox": box,
        "role": "img",
        "aria-labelledby": f"{name}-title {name}-desc",
        "stroke-linejoin": "round",
    }
    for place, (tag, text) in enumerate((("title", title), ("desc", description))):
        said = ElementTree.Element(f"{{{_SVG}}}{tag}", {"id": f"{name}-{tag}"})
        said.text = text
        root.insert(place, said)
    return ElementTree.tostring(root, encoding="unicode")


def _drop(element: ElementTree.Element) -> None:
    """Take out metadata and style sheets, at any depth."""
    for child in list(element):
        if child.tag in (f"{{{_SVG}}}metadata", f"{{{_SVG}}}style"):
            element.remove(child)
        else:
            _drop(child)


def _rename(root: ElementTree.Element, name: str) -> None:
    """Prefix identifiers that are referred to and take away the others; href without its old namespace."""
    text = ElementTree.tostring(root, encoding="unicode")
    used = set(re.findall(r'href="#([^"]+)"', text)) | set(re.findall(r"url\(#([^)]+)\)", text))
    for element in root.iter():
        own = element.attrib.pop("id", None)
        if own in used:
            element.set("id", f"{name}-{own}")
        target = element.attrib.pop(_XLINK, None)
        if target is not None:
            element.set("href", f"#{name}-{target.removeprefix('#')}")
        clip = element.get("clip-path")
        if clip is not None:
            element.set("clip-path", clip.replace("url(#", f"url(#{name}-"))


def _plain_style(element: ElementTree.Element) -> None:
    for part in element.attrib.pop("style", "").split(";"):
        key, colon, value = (word.strip() for word in part.partition(":"))
        if not colon or key in _DROPPED:
            continue
        if key == "font":
            found = _FONT.search(value)
            assert found, f"matplotlib wrote a font that is not understood: {value}"
            element.set("font-size", found["size"])
            if found["weight"]:
                element.set("font-weight", found["weight"])
        else:
            element.set(key, value)
