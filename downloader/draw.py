"""Draws the files of a run's downloads: so many names of each CDN, at random by the run's seed.

A name is drawn by a hash of seed and name, so the same ones in every repetition and at every vantage point. A
CDN that has fewer gives all it has: no group is filled from another.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from hashlib import blake2b
from pathlib import Path

import pyarrow.parquet as pq

from downloader import targets
from downloader.targets import RejectedLine, Target
from firstflight.as_map import OTHERS
from firstflight.errors import InputError

FOUND = "found"
# The header of a target list is its line 1.
_FIRST_LINE = 2


def of_crawl(path: Path, dns_answer: Path) -> tuple[list[Target], list[RejectedLine]]:
    """Return the files that a crawl found, from download_file.parquet, and the rows that are no targets.

    Their addresses are the vantage point's own, the first IPv4 one of each name in `dns_answer`: a CDN sends
    each place to an edge nearby. InputError if a file is not there.
    """
    if not path.is_file():
        raise InputError(f"there is no {path}: run the crawl stage first, or name a list in download.targets")
    addresses = _addresses(dns_answer)
    columns = ["domain", "url", "outcome"]
    found: list[Target] = []
    rejected: list[RejectedLine] = []
    for line, row in enumerate(pq.read_table(path, columns=columns).to_pylist(), start=_FIRST_LINE):
        if row["outcome"] == FOUND:
            domain = row["domain"]
            try:
                found.append(targets.of(line, row["url"], addresses.get(domain, ""), domain))
            except ValueError as error:
                rejected.append(RejectedLine(line, str(error)))
    return found, rejected


def _addresses(path: Path) -> dict[str, str]:
    """Return the first IPv4 address of each name in the resolve stage's record file."""
    if not path.is_file():
        raise InputError(f"there is no {path}: run the resolve stage first")
    rows = pq.read_table(
        path,
        columns=["domain", "address"],
        filters=[("qtype", "=", "A"), ("status", "=", "NOERROR"), ("answer_rank", "=", 0)],
    )
    found = zip(rows["domain"].to_pylist(), rows["address"].to_pylist(), strict=True)
    return {domain: address for domain, address in found if address is not None}


def of_list(path: Path) -> tuple[list[Target], list[RejectedLine]]:
    """Return the targets and the rejected lines of a list (targets.read)."""
    found: list[Target] = []
    rejected: list[RejectedLine] = []
    for one in targets.read(path):
        if isinstance(one, RejectedLine):
            rejected.append(one)
        else:
            found.append(one)
    return found, rejected


def drawn(
    found: Iterable[Target],
    cdn_of: Callable[[str], str | None],
    seed: int,
    per_cdn: int | None,
    others: int | None,
) -> tuple[list[Target], Counter[str]]:
    """Return the drawn targets in the order of the list, and of each group how many there were.

    `cdn_of`: CDN of an address; what has none counts as `Others`. `per_cdn`, `others`: how many to draw of
    each CDN, and of the rest; None: all.
    """
    groups: dict[str, list[Target]] = defaultdict(list)
    for target in found:
        groups[(cdn_of(target.ip) if target.ip else None) or OTHERS].append(target)
    chosen: list[Target] = []
    for cdn, members in groups.items():
        most = others if cdn == OTHERS else per_cdn
        members.sort(key=lambda target: number(seed, target.domain))
        chosen += members[:most]
    return sorted(chosen, key=lambda target: target.line), Counter(
        {cdn: len(members) for cdn, members in groups.items()}
    )


def number(seed: int, name: str) -> int:
    """Return the number of a name, from 0 to 2^64 - 1: evenly spread, and different for each seed."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8, key=seed.to_bytes(8, "big")).digest(), "big")
