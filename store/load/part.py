"""The part of a unit's rows in a record file: all rows, or a shard's rows.

The record files from a vantage point with shards have the same units. Each file is loaded and replaced
separately, so its rows must differ from the rows of other shards: in `source_file`, a column of all kinds.
"""

from __future__ import annotations

from dataclasses import dataclass

from firstflight.shard import WHOLE, Shard
from store.sql import literal


@dataclass(frozen=True)
class ShardPart:
    """A shard's part of a unit: the rows with a source_file that starts with `prefix`. Default: all rows."""

    shard: Shard = WHOLE
    prefix: str = ""

    @property
    def key(self) -> dict[str, str]:
        """The unit's columns that the folder names; empty for all rows."""
        names = self.prefix.split("/")[:3]
        return {} if self.shard.is_whole else dict(zip(("run", "vantage", "repetition"), names, strict=True))

    @property
    def name(self) -> tuple[str, ...]:
        """The words that the load log adds to a unit's name."""
        return () if self.shard.is_whole else (str(self.shard),)

    @property
    def condition(self) -> str:
        """The SQL condition that selects the part's rows among the unit's rows."""
        return f"startsWith(source_file, {literal(self.prefix)})"

    @property
    def of_no_shard(self) -> str:
        """The SQL condition for rows in a unit that are in no shard's folder."""
        folders = "/".join([*self.prefix.split("/")[:3], "shard-"])
        return f"NOT startsWith(source_file, {literal(folders)})"


ALL = ShardPart()
