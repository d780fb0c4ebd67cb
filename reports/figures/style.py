"""The style of figures: sizes, colours that colour-blind people can distinguish, distinct line styles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from reports import wording

INK = "#222222"
FAINT = "#6b6b6b"
GRID = "#e3e3e3"


@dataclass(frozen=True)
class Size:
    """A figure's width in CSS pixels, drawn at scale 1; text has the same size at all widths."""

    name: str
    width: int

    @property
    def narrow(self) -> bool:
        """Whether panels are stacked vertically."""
        return self.width < 500


WIDE = Size("wide", 720)
NARROW = Size("narrow", 350)
SIZES = (WIDE, NARROW)


@dataclass(frozen=True)
class Look:
    """A CDN's line and marker, the same in all figures on a page."""

    colour: str
    dash: Any
    marker: str

    @property
    def ink(self) -> tuple[float, float, float]:
        """The colour, darkened for text on white (a contrast of 4.5 or more)."""
        red, green, blue = to_rgb(self.colour)
        return 0.62 * red, 0.62 * green, 0.62 * blue

    @property
    def line(self) -> dict[str, Any]:
        """Keyword arguments for `Axes.plot` and legends."""
        return {"color": self.colour, "linestyle": self.dash, "linewidth": 1.8}


# Okabe and Ito's palette, without yellow and with a darker sky blue (3:1 on white or more), and Tol's wine.
_LOOKS = (
    Look("#0072B2", "-", "o"),
    Look("#D55E00", (0, (5, 2)), "s"),
    Look("#009E73", (0, (5, 1.5, 1, 1.5)), "^"),
    Look("#CC79A7", (0, (1.2, 1.4)), "D"),
    Look("#A6761D", (0, (5, 1.2, 1, 1.2, 1, 1.2)), "v"),
    Look("#3A92C8", (0, (8, 1.5)), "P"),
    Look("#882255", (0, (2.5, 1.2)), "X"),
)
_OTHERS = Look("#5f5f5f", (0, (1, 0.8)), "p")
MOST = len(_LOOKS)
"""The maximum number of distinguishable CDNs in a figure, besides `Others`."""


def looks(cdns: Iterable[tuple[str, int]]) -> dict[str, Look]:
    """Return a look for each CDN in figures: the `MOST` CDNs with most probes, alphabetically, and `Others`.

    Figures omit all other CDNs, and the page lists them.
    """
    ordered = sorted((-probes, cdn) for cdn, probes in cdns if cdn != "Others")
    drawn = sorted(cdn for _, cdn in ordered[:MOST])
    return {**dict(zip(drawn, _LOOKS, strict=False)), "Others": _OTHERS}


def name(text: str) -> str:
    """Make an external name safe for a figure: plain, short, and visible (legends skip a leading _)."""
    shown = wording.plain(text)
    shown = shown if len(shown) <= 24 else shown[:23] + "…"
    return f" {shown}" if shown.startswith("_") else shown


@contextmanager
def drawing() -> Iterator[None]:
    """Apply matplotlib's settings for a figure of the page."""
    with matplotlib.rc_context(
        {
            "font.family": "DejaVu Sans",  # wider than the page's fonts, so that text never overlaps
            "font.size": 11.5,
            "text.color": INK,
            "text.parse_math": False,  # names are external text
            "axes.labelcolor": INK,
            "axes.titlesize": 11.5,
            "axes.titlelocation": "left",
            "axes.titleweight": "bold",
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.edgecolor": FAINT,
            "axes.linewidth": 0.8,
            "axes.grid": True,
            "axes.axisbelow": True,
            "axes.unicode_minus": True,
            "grid.color": GRID,
            "grid.linewidth": 0.8,
            "xtick.color": FAINT,
            "xtick.labelcolor": INK,
            "ytick.color": FAINT,
            "ytick.labelcolor": INK,
            "xtick.labelsize": 11,
            "ytick.labelsize": 11,
            "legend.frameon": False,
            "legend.fontsize": 11.5,
            "legend.handlelength": 2.6,
        }
    ):
        yield


def canvas(size: Size, height: int) -> Figure:
    """Return an empty figure, `height` in CSS pixels: matplotlib's SVG has 72 per inch."""
    return Figure(figsize=(size.width / 72, height / 72), dpi=72, layout="constrained")
