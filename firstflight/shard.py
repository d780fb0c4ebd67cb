"""Shards: a vantage point's names, divided among several processes (ZMap's word).

A hash of the name determines its shard, not its position in the list. So lists in another order are divided
the same way, and the shard that resolves a name probes all its addresses. docs/design/0017 has the reasons.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from zlib import crc32

from firstflight.errors import UsageError

MOST = 64
_GIVEN = re.compile(r"([0-9]{1,5})/([0-9]{1,5})")
_FOLDER = re.compile(r"shard-([0-9]{1,2})-of-([0-9]{1,2})")


@dataclass(frozen=True, order=True)
class Shard:
    """Shard `index` of `count`, from 0 like in ZMap. Shard 0 of 1 is the whole list."""

    index: int = 0
    count: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.index < self.count <= MOST:
            raise UsageError(
                f"there is no shard {self}: write K/N, with N from 1 to {MOST} and K from 0 to N - 1"
            )

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    @property
    def is_whole(self) -> bool:
        """Whether there is no other shard."""
        return self.count == 1

    @property
    def folder(self) -> str:
        """The name of the shard's folder."""
        return f"shard-{self.index}-of-{self.count}"

    def holds(self, names: Iterable[bytes]) -> list[bool]:
        """Return for each name (UTF-8) whether it belongs to this shard. It belongs to exactly one shard."""
        index, count = self.index, self.count
        return [crc32(name) % count == index for name in names]


WHOLE = Shard()


def parse(text: str) -> Shard:
    """Return the shard for `K/N`. Raise UsageError for other text."""
    match = _GIVEN.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} is not a shard: write K/N, for example 0/3 for the first of three")
    return Shard(int(match[1]), int(match[2]))


def of_folder(name: str) -> Shard:
    """Return the shard with the folder name `name`; WHOLE if it is not a shard's folder."""
    match = _FOLDER.fullmatch(name)
    if match is None:
        return WHOLE
    try:
        shard = Shard(int(match[1]), int(match[2]))
    except UsageError:
        return WHOLE
    return shard if shard.folder == name else WHOLE


def all_of(shards: int) -> list[Shard]:
    """Return all shards of a list that is divided into `shards` shards."""
    return [Shard(index, shards) for index in range(shards)]
