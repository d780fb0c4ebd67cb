"""Draws Table 1 for a run as a small SVG: `python -m deploy.docs.picture TRUTH > docs/images/table1.svg`.

TRUTH is the output of `firstflight lab truth --table1`; `make demo` writes it to var/table1_truth.jsonl.
The measured shares come from the view `table1` of the store in `FIRSTFLIGHT_STORE` (var/store).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from store import ask

WIDTH, ROW, HEAD, FOOT = 720, 26, 64, 34
NAME_X, COUNT_X, BAR_X, BAR_WIDTH, SHARE_X = 16, 196, 216, 360, 704
INK, SOFT, BAR, MARK, PAPER = "#1f2933", "#616e7c", "#4c78a8", "#d1495b", "#ffffff"
STORE = "chdb:var/store"
TITLE = "Share of names that answer with an instant ACK, in the lab"


def main(arguments: Sequence[str]) -> int:
    """Print the picture; 2 if the truth is not named."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m deploy.docs.picture TRUTH\n")
        return 2
    lines = Path(arguments[0]).read_text(encoding="utf-8").splitlines()
    declared = {line["cdn"]: line["iack_share_max"] for line in map(json.loads, lines)}
    query = "SELECT cdn, domains, iack_share_max FROM table1 ORDER BY cdn"
    answer, _ = ask.formatted(query, "JSONEachRow", os.environ.get("FIRSTFLIGHT_STORE", STORE))
    sys.stdout.write(svg([json.loads(row) for row in answer.decode().splitlines()], declared))
    return 0


def svg(rows: Sequence[dict[str, Any]], declared: dict[str, float]) -> str:
    """Return the picture: a bar for the measured share (0 to 1) of each CDN, a mark at the declared one."""
    height = HEAD + ROW * len(rows) + FOOT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" role="img" font-family="system-ui, sans-serif" font-size="14">',
        f"<title>{TITLE}</title>",
        f'<rect width="{WIDTH}" height="{height}" rx="6" fill="{PAPER}"/>',
        _text(NAME_X, 28, TITLE, size=16, weight="600"),
        _text(NAME_X, 54, "CDN", SOFT),
        _text(COUNT_X, 54, "names", SOFT, end=True),
        _text(SHARE_X, 54, "measured", SOFT, end=True),
    ]
    for number, row in enumerate(rows):
        y = HEAD + ROW * number
        share, truth = row["iack_share_max"] or 0.0, declared[row["cdn"]]
        at = BAR_X + round(BAR_WIDTH * truth)
        parts += [
            _text(NAME_X, y + 18, row["cdn"]),
            _text(COUNT_X, y + 18, str(row["domains"]), SOFT, end=True),
            f'<rect x="{BAR_X}" y="{y + 5}" width="{BAR_WIDTH}" height="16" fill="#f0f2f5"/>',
            f'<rect x="{BAR_X}" y="{y + 5}" width="{round(BAR_WIDTH * share)}" height="16" fill="{BAR}"/>',
            f'<path d="M{at} {y + 2}v22" stroke="{MARK}" stroke-width="3"/>',
            _text(SHARE_X, y + 18, f"{100 * share:.1f} %", end=True),
        ]
    y = height - 12
    parts += [
        f'<rect x="{NAME_X}" y="{y - 10}" width="14" height="10" fill="{BAR}"/>',
        _text(NAME_X + 20, y, "measured from packets", SOFT, size=12),
        f'<path d="M{NAME_X + 174} {y - 12}v14" stroke="{MARK}" stroke-width="3"/>',
        _text(NAME_X + 184, y, "declared behaviour of the servers", SOFT, size=12),
        "</svg>\n",
    ]
    return "\n".join(parts)


def _text(
    x: int, y: int, words: str, fill: str = INK, size: int = 14, weight: str = "400", end: bool = False
) -> str:
    anchor = ' text-anchor="end"' if end else ""
    style = f'fill="{fill}" font-size="{size}" font-weight="{weight}"{anchor}'
    return f'<text x="{x}" y="{y}" {style}>{escape(words)}</text>'


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
