"""Converts a matplotlib figure to a file, or for a page to plain SVG with text, a title, no inline style.

The page's strict content policy forbids inline style, and several figures share one page. So style attributes
become presentation attributes, identifiers get a prefix, and style sheets and metadata are removed.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree

import matplotlib
from matplotlib.figure import Figure

from reports.figures import style

_SVG = "http://www.w3.org/2000/svg"
_XLINK = "{http://www.w3.org/1999/xlink}href"
_FONT = re.compile(r"(?:(?P<weight>bold|\d{3})\s+)?(?P<size>[\d.]+)px\b")
_DROPPED = {"font-family", "font-style"}  # the page sets the family; all text is upright

ElementTree.register_namespace("", _SVG)


FORMATS = ("svg", "png", "pdf")
"""Formats of files."""
_DPI = 216
"""Resolution of a PNG: three pixels per CSS pixel."""
# No date and no version, so that equal figures are equal bytes.
_METADATA: Mapping[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def content(figure: Figure, output_format: str, name: str) -> bytes:
    """Return the figure as a file in a format of FORMATS; `name` makes identifiers in an SVG."""
    out = io.BytesIO()
    # Labels of axes are made when a figure is saved.
    with style.drawing(), matplotlib.rc_context({"svg.hashsalt": name, "pdf.fonttype": 42}):
        _fix_layout(figure)
        figure.savefig(out, format=output_format, dpi=_DPI, metadata=_METADATA[output_format])
    return out.getvalue()


def inline(figure: Figure, name: str, title: str, description: str) -> str:
    """Return the figure as an <svg> element; `name` must be unique on the page."""
    out = io.BytesIO()
    # Text stays text; identifiers depend only on `name` and there is no date: same figure, same bytes.
    with style.drawing(), matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        _fix_layout(figure)
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
    for index, (tag, text) in enumerate((("title", title), ("desc", description))):
        label = ElementTree.Element(f"{{{_SVG}}}{tag}", {"id": f"{name}-{tag}"})
        label.text = text
        root.insert(index, label)
    return ElementTree.tostring(root, encoding="unicode")


def _fix_layout(figure: Figure) -> None:
    """Compute the layout and round it: the solver's last digits vary, and identifiers depend on them."""
    if figure.get_layout_engine() is None:
        return
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axes in figure.axes:
        left, bottom, width, height = (round(edge, 9) for edge in axes.get_position().bounds)
        axes.set_position((left, bottom, width, height))


def _drop(element: ElementTree.Element) -> None:
    """Remove metadata and style sheets, at any depth."""
    for child in list(element):
        if child.tag in (f"{{{_SVG}}}metadata", f"{{{_SVG}}}style"):
            element.remove(child)
        else:
            _drop(child)


def _rename(root: ElementTree.Element, name: str) -> None:
    """Prefix identifiers that are referenced and remove the others; write href without its old namespace."""
    text = ElementTree.tostring(root, encoding="unicode")
    used = set(re.findall(r'href="#([^"]+)"', text)) | set(re.findall(r"url\(#([^)]+)\)", text))
    for element in root.iter():
        element_id = element.attrib.pop("id", None)
        if element_id in used:
            element.set("id", f"{name}-{element_id}")
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
            match = _FONT.search(value)
            assert match, f"matplotlib wrote a font that cannot be parsed: {value}"
            element.set("font-size", match["size"])
            if match["weight"]:
                element.set("font-weight", match["weight"])
        else:
            element.set(key, value)
