"""A store's interface, independent of the engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from schemas.sql import Dialect

if TYPE_CHECKING:
    import pyarrow as pa

Parameters = Mapping[str, str | int]


class FormattedAnswer(NamedTuple):
    """An answer and the format. A FORMAT clause in the query overrides the requested format."""

    content: bytes
    output_format: str


@dataclass(frozen=True)
class QueryLimits:
    """Upper limits of each query: time in seconds, memory in bytes, rows and bytes of the result.

    A query that exceeds one fails with a `StoreError` that has the engine's code.
    """

    seconds: int
    memory_bytes: int
    rows: int
    result_bytes: int

    def settings(self) -> dict[str, object]:
        """Return the engine's settings for these limits."""
        return {
            "max_execution_time": self.seconds,
            "max_memory_usage": self.memory_bytes,
            "max_result_rows": self.rows,
            "max_result_bytes": self.result_bytes,
            "result_overflow_mode": "throw",
        }


class Store(Protocol):
    """An open store. All methods raise `store.errors.StoreError` with one sentence."""

    @property
    def location(self) -> str:
        """Where the store is, for messages."""

    @property
    def dialect(self) -> Dialect:
        """Database and cluster, to render the SQL files of schemas/."""

    def execute(self, sql: str, parameters: Parameters | None = None) -> None:
        """Run one statement that returns no rows. `{name:Type}` in `sql` is a parameter."""

    def rows(self, sql: str, parameters: Parameters | None = None) -> list[dict[str, Any]]:
        """Run a query and return one dict per row. Instants are text, 64-bit integers are int."""

    def formatted(self, sql: str, output_format: str) -> FormattedAnswer:
        """Run a user's query and return the result in a format of ClickHouse."""

    def insert(self, table: str, batch: pa.Table, token: str | None = None) -> None:
        """Add all rows of `batch` as one block, atomically.

        Column names must match; their order is irrelevant. Text fits Enum and LowCardinality columns, and
        timestamp[ns, UTC] fits DateTime64(9). `token`: a table with a deduplication window adds rows with the
        same token only once, even if several programs send them.
        """

    def count_in(self, batch: pa.Table, conditions: Sequence[str]) -> list[int]:
        """Count the rows of `batch` for which each SQL condition holds. `batch` is not stored."""

    @property
    def shared(self) -> bool:
        """Whether other programs can write at the same time."""

    def catch_up(self, table: str) -> None:
        """Wait until rows that others wrote to `table` are visible here. Only a cluster needs this."""
