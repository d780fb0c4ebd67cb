"""The part of a unit's rows in a record file: all rows, or the rows of a shard.

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
    def key(self) -> dict[str, str]:
        """The unit's columns that the folder names; empty for all rows."""
        names = self.prefix.split("/")[:3]
        return {} if self.shard.is_whole else dict(zip(("run", "vantage", "repetition"), names, strict=True))

    @property
    def name(self) -> tuple[str, ...]:
        """What the load log adds to the name of a unit."""
        return () if self.shard.is_whole else (str(self.shard),)

    @property
    def condition(self) -> str:
        """The SQL condition that selects the part's rows among the unit's rows."""
        return f"startsWith(source_file, {literal(self.prefix)})"

    @property
    def of_no_shard(self) -> str:
        """The SQL condition for rows of a unit that are in no shard's folder."""
        folders = "/".join([*self.prefix.split("/")[:3], "shard-"])
        return f"NOT startsWith(source_file, {literal(folders)})"


ALL = Part()
