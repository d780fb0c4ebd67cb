"""What the rest of the project may ask of a store, whichever engine stands behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from schemas.sql import Dialect

if TYPE_CHECKING:
    import pyarrow as pa

Parameters = Mapping[str, str | int]


class Answer(NamedTuple):
    """An answer in one of ClickHouse's formats, and which: a FORMAT clause wins over what was wanted."""

    content: bytes
    output_format: str


class Store(Protocol):
    """An open store. All methods raise `store.errors.StoreError` with one sentence."""

    @property
    def place(self) -> str:
        """Where it is, for people."""

    @property
    def dialect(self) -> Dialect:
        """Database and cluster, for rendering the files of schemas/."""

    def execute(self, sql: str, parameters: Parameters | None = None) -> None:
        """Run one statement that gives no rows. `{name:Type}` in `sql` stands for a parameter."""

    def rows(self, sql: str, parameters: Parameters | None = None) -> list[dict[str, Any]]:
        """Run a query; one dict per row. Points in time come as text, 64-bit integers as int."""

    def formatted(self, sql: str, output_format: str) -> Answer:
        """Run a query that came from a person and give its result in one of ClickHouse's formats."""

    def insert(self, table: str, batch: pa.Table, token: str | None = None) -> None:
        """Add all rows of `batch` as one block, which is written wholly or not at all.

        Columns go by name; text fits Enum and LowCardinality columns, timestamp[ns, UTC] fits DateTime64(9).
        `token`: a table that remembers inserts adds the rows of one token once, whoever sends them.
        """

    def count_in(self, batch: pa.Table, conditions: Sequence[str]) -> list[int]:
        """For each SQL condition, in how many rows of `batch`, which is not stored, it holds."""

    @property
    def shared(self) -> bool:
        """Whether other programs may write at the same time."""

    def catch_up(self, table: str) -> None:
        """Wait until what others wrote to `table` can be read here, where a cluster needs time for it."""
