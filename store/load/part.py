"""The part of a unit's rows that one record file holds: all of them, or those of one shard.

The record files of a vantage point with shards have the same units. Each is loaded and replaced alone, so its
rows must be told from the others': by the file that they name, else by their names (firstflight/shard.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from firstflight.shard import WHOLE, Shard
from schemas.records import Kind
from store.sql import literal


@dataclass(frozen=True)
class Part:
    """A shard's part of a record kind; `prefix` begins the source_file of its rows. Default: all rows."""

    shard: Shard = WHOLE
    prefix: str = ""

    @property
    def name(self) -> tuple[str, ...]:
        """What the load log adds to the name of a unit."""
        return () if self.shard.is_whole else (str(self.shard),)

    def condition(self, kind: Kind) -> str:
        """Return the SQL condition for the part's rows among those of a unit; empty for all rows."""
        if self.shard.is_whole:
            return ""
        if any(column.name == "source_file" for column in kind.columns):
            return f" AND startsWith(source_file, {literal(self.prefix)})"
        # The engine's CRC32 is zlib's.
        return f" AND CRC32(domain) % {self.shard.of} = {self.shard.index}"


ALL = Part()
