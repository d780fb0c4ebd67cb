"""CrUX lists in the lab: GitHub's file host with monthly global lists in the layout of the real ones.

A list is YYYYMM.csv.gz with the header `origin,rank`. Ranks are buckets; the order within a bucket has no
meaning. The lab's names are distributed over the buckets like a sample of the top million.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from pathlib import Path

HOST = "raw.githubusercontent.com"
FOLDER = Path("zakird") / "crux-top-lists" / "main" / "data" / "global"
MONTHS = ("202407", "202408")
# (bucket, cumulative share of the lab's names)
BUCKETS = ((1_000, 0.1), (5_000, 0.2), (10_000, 0.4), (50_000, 0.6), (100_000, 0.8), (1_000_000, 1.0))


def bucket(position: int, names: int) -> int:
    """Return the bucket of the name at `position` (from 0) of `names` names."""
    return next(bound for bound, share in BUCKETS if position < share * names or share == 1.0)


def origins(names: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Return (origin, bucket) of each name; every tenth name also has its HTTP origin in the last bucket."""
    rows = []
    for position, name in enumerate(names):
        rows.append((f"https://{name}", bucket(position, len(names))))
        if position % 10 == 0:
            rows.append((f"http://{name}", BUCKETS[-1][0]))
    # Sorted within a bucket, so that the order of lines cannot be mistaken for a rank.
    return iter(sorted(rows, key=lambda row: (row[1], row[0])))


def write_tree(tree: Path, names: Sequence[str]) -> None:
    """Write a list for each of MONTHS below `tree`, the document root; the earlier list is reversed."""
    folder = tree / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for month in MONTHS:
        listed = names if month == MONTHS[-1] else list(reversed(names))
        text = "origin,rank\n" + "".join(f"{origin},{rank}\n" for origin, rank in origins(listed))
        (folder / f"{month}.csv.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
