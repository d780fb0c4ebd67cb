"""pandas, polars and DuckDB read the same from Parquet: of both kinds of store, and of record files."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import duckdb
import pandas
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from store import ask
from store.engine import parquet
from store.engine.session import EngineSession
from tests.queries.conftest import first_run
from tests.store.rows import write
from tests.store.served.serving import serving

QUERY = "SELECT domain, toString(ip) AS ip, outcome, sent_at, cdn, repetition FROM quic_probe ORDER BY ALL"
ROWS = len(first_run()) + 2


def by_pandas(path: Path) -> list[tuple[Any, ...]]:
    frame = pandas.read_parquet(path)
    assert str(frame.sent_at.dtype) == "datetime64[ns, UTC]"
    assert int((frame.outcome == "iack").sum()) > 0, "pandas finds the instant ACKs"
    return [
        (row.outcome, None if pandas.isna(row.sent_at) else row.sent_at.value)
        for row in frame.itertuples(index=False)
    ]


def by_polars(path: Path) -> list[tuple[Any, ...]]:
    frame = polars.read_parquet(path)
    assert frame.schema["sent_at"] == polars.Datetime("ns", "UTC")
    assert frame.schema["outcome"] == polars.String
    return frame.select("outcome", polars.col("sent_at").dt.epoch("ns")).rows()


def by_duckdb(path: Path) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        found = connection.execute("SELECT outcome, epoch_ns(sent_at) FROM read_parquet(?)", [str(path)])
        return found.fetchall()


def same_for_all(path: Path) -> list[tuple[Any, ...]]:
    found = by_pandas(path)
    assert found == by_polars(path) == by_duckdb(path)
    return found


def test_answers_of_both_stores(campaign: str, tmp_path: Path) -> None:
    path = tmp_path / "answer.parquet"
    path.write_bytes(ask.formatted(QUERY, "Parquet", campaign).content)
    embedded = same_for_all(path)
    assert len(embedded) == ROWS and None in {sent for _, sent in embedded}
    lines = ask.formatted(QUERY, "JSONEachRow", campaign).content.splitlines()
    texts = [json.loads(line) for line in lines]
    assert [(row["outcome"], row["sent_at"]) for row in texts] == [
        (outcome, None if sent is None else f"{pandas.Timestamp(sent):%F %T}.{sent % 10**9:09}")
        for outcome, sent in embedded
    ]
    with serving(Path(campaign.removeprefix("chdb:"))) as served:
        path.write_bytes(ask.formatted(f"{QUERY} FORMAT Parquet", "TSV", served.url).content)
    assert same_for_all(path) == embedded


def test_record_files(tmp_path: Path) -> None:
    rows = first_run()
    found = same_for_all(write(tmp_path / "quic_probe.parquet", rows))
    assert found == [(row["outcome"], row["sent_at"]) for row in rows]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("CAST('a', 'Enum8(''a'' = 1)')", pa.string()),
        ("CAST(NULL, 'Nullable(Enum16(''a'' = 1))')", pa.string()),
        ("[CAST('a', 'Enum8(''a'' = 1)')]", pa.list_(pa.field("element", pa.string(), nullable=False))),
        ("toDateTime(1, 'UTC')", pa.timestamp("ns", "UTC")),
        ("toDateTime64(1, 3, 'Europe/Berlin')", pa.timestamp("ns", "UTC")),
        ("toDateTime64('2290-01-01 00:00:00', 3, 'UTC')", pa.timestamp("ms", "UTC")),  # beyond 64 bits of ns
        ("toDate('2026-11-20')", pa.date32()),
        ("unhex('ff')", pa.string()),
    ],
)
def test_types(expression: str, expected: pa.DataType) -> None:
    engine = EngineSession()
    try:
        made = parquet.readable(engine.run(f"SELECT {expression} AS x FROM numbers(3)", "Parquet"))
    finally:
        engine.close()
    file = pq.ParquetFile(io.BytesIO(made))
    assert file.schema_arrow.field("x").type == expected and file.metadata.num_rows == 3
