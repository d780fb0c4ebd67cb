"""The part of a unit's rows that one record file holds: all of them, or those of one shard.

The record files of a vantage point with shards have the same units. Each is loaded and replaced alone, so its
rows must differ from the others': by `source_file`, which all kinds have.
"""

from __future__ import annotations

from dataclasses import dataclass

from firstflight.shard import WHOLE, Shard
from store.sql import literal


@dataclass(frozen=True)
class Part:
    """A shard's part of a unit; `prefix` begins the source_file of its rows. Default: all rows."""

    shard: Shard = WHOLE
    prefix: str = ""

    @property
    def name(self) -> tuple[str, ...]:
        """What the load log adds to the name of a unit."""
        return () if self.shard.is_whole else (str(self.shard),)

    @property
    def condition(self) -> str:
        """The SQL condition for the part's rows among those of a unit."""
        return f"startsWith(source_file, {literal(self.prefix)})"


ALL = Part()
