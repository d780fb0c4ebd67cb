"""CrUX lists: Chrome's most visited origins in a month, from github.com/zakird/crux-top-lists.

A list is `data/global/YYYYMM.csv.gz` with the header `origin,rank`. The rank is a bucket (1000, 5000, 10000,
...): the origin is among this number of top origins. The order within a bucket has no meaning. An origin has
a scheme, a host and optionally a port. If a name has several origins, the smallest bucket applies.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from crawler import https
from crawler.decompress import gunzipped
from crawler.lists.distinct_targets import DistinctTargets, Target
from crawler.lists.target_list import MAX_RANK, Rejected, TargetList
from firstflight.errors import InputError, UsageError
from firstflight.host_names import NotAName, normalise, quoted
from firstflight.system import files

HEADER = "origin,rank"
# The report keeps each rejected line. A list has a million lines, with a few dozen invalid ones.
MOST_REJECTED = 100_000


def read(
    month: str,
    top: int | None,
    base_url: str,
    cache_dir: Path,
    session: https.Session,
    scratch: Path | None = None,
) -> TargetList:
    """Return the names of the list of `month` (YYYYMM) in all buckets up to `top` (`None`: in all buckets).

    `base_url`: the folder of the monthly files. `scratch`: a folder for temporary files. Raise FetchError if
    the list cannot be fetched, InputError if the file is not a CrUX list, and UsageError if the smallest
    bucket is larger than `top`.
    """
    path = cache_dir / f"{month}.csv.gz"
    if not path.is_file():
        https.download(session, f"{base_url.rstrip('/')}/{month}.csv.gz", path)
    for _ in gunzipped(path):  # reject a broken file before any line is reported
        pass
    return parse(f"crux:{month}:{files.sha256_of(path)[:12]}", _lines(path), top, path, scratch)


def parse(
    list_id: str, lines: Iterator[str], top: int | None, path: Path, scratch: Path | None = None
) -> TargetList:
    """Return the names in `lines`, which start with the header. Messages refer to the list as `path`."""
    if next(lines, "") != HEADER:
        raise InputError(
            f"{path} is no CrUX list: its first line is not `{HEADER}`; remove it to fetch it again"
        )
    target_list = TargetList(list_id, DistinctTargets(scratch=scratch))
    smallest = MAX_RANK
    for number, line in enumerate(lines, start=2):
        if not line:
            continue
        target_list.lines += 1
        try:
            origin, bucket = _fields(line)
            smallest = min(smallest, bucket)
            if top is not None and bucket > top:
                target_list.lines -= 1
                continue
            target_list.targets.append(Target(None, normalise(host_of(origin)), bucket))
        except NotAName as error:
            target_list.rejected.append(Rejected(number, str(error)))
            if len(target_list.rejected) > MOST_REJECTED:
                raise InputError(
                    f"{path} is no CrUX list: more than {MOST_REJECTED:,} lines are not `{HEADER}`; "
                    "remove it to fetch it again"
                ) from error
    if top is not None and top < smallest < MAX_RANK:
        raise UsageError(
            f"[targets] top = {top}: CrUX gives no ranks but buckets, the smallest of {list_id} is {smallest}"
        )
    target_list.duplicates = target_list.targets.repeated()
    return target_list


def host_of(origin: str) -> str:
    """Return the host of an origin (RFC 6454 6.2). Raise NotAName if the text is not an http(s) origin."""
    try:
        parts = urlsplit(origin)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise NotAName(f"{quoted(origin)} is no origin ({error})") from error
    bare = not (parts.path or parts.query or parts.fragment or parts.username)
    if parts.scheme not in ("http", "https") or not host or not bare:
        raise NotAName(f"{quoted(origin)} is no origin like https://www.example.com")
    return host


def _fields(line: str) -> tuple[str, int]:
    origin, comma, rank = line.rpartition(",")
    if not (comma and rank.isascii() and rank.isdigit() and len(rank) <= 10 and 1 <= int(rank) <= MAX_RANK):
        raise NotAName(f"{quoted(line)} is not `{HEADER}`")
    return origin.strip('"'), int(rank)


def _lines(path: Path) -> Iterator[str]:
    """Yield a gzip file's lines. Reads it in pieces; a line may span two pieces."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    pieces: list[str] = []
    for piece in gunzipped(path):
        pieces.append(decoder.decode(piece))
        if "\n" in pieces[-1]:
            *lines, rest = "".join(pieces).splitlines(keepends=True)
            pieces = [rest]
            yield from map(str.strip, lines)
    pieces.append(decoder.decode(b"", final=True))
    yield from map(str.strip, "".join(pieces).splitlines())
