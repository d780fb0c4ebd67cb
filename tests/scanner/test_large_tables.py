"""Record files with more rows than fit into memory: the result does not depend on the block size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firstflight.errors import InputError
from scanner.driver import choose, rows, segments
from scanner.driver.rows import Rows
from scanner.records import counts, merge
from scanner.records.last_probe import last_probes
from schemas import records
from tests.scanner.test_probe_parts import SECOND, answer, merged, probe, prober_rows, write_segment

MODULES = (choose, rows, segments)


@pytest.fixture(params=[1, 2, 3, 32_768])
def block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Set the number of rows per block."""
    size: int = request.param
    for module in MODULES:
        monkeypatch.setattr(module, "BATCH", size)
    monkeypatch.setattr(rows, "TAKEN", 2 * size)
    return size


@pytest.mark.usefixtures("block")
def test_addresses_are_chosen_once_where_they_stood_first(tmp_path: Path) -> None:
    rows = [
        answer("z.test", "A", "192.0.2.9", 0),
        answer("a.test", "A", None, None, "NXDOMAIN"),
        answer("a.test", "A", "192.0.2.1", 0),
        answer("z.test", "A", "192.0.2.9", 0),
        answer("b.test", "A", "192.0.2.1", 0),
        answer("b.test", "AAAA", "2001:db8::1", 0),
        answer("a.test", "A", "192.0.2.1", 0),
        answer("c.test", "A", "192.0.2.3", 0),
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "answers.parquet")
    plan = choose.choose(tmp_path / "answers.parquet", (4,), True)
    assert plan.schema.equals(choose.PLAN)
    assert plan["domain"].to_pylist() == ["z.test", "a.test", "b.test", "c.test"]
    assert plan["target"].to_pylist() == [2, 3, 4, 5]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["answers.parquet"]


def sent_rows() -> list[dict[str, Any]]:
    return [
        probe(5, "d.test", "192.0.2.4", "timeout", 9 * SECOND),
        probe(2, "a.test", "192.0.2.1", "iack", 10 * SECOND),
        probe(4, "c.test", "192.0.2.3", "send_failed", None),
        probe(3, "b.test", "192.0.2.2", "blocked", None),
        probe(6, "e.test", "192.0.2.5", "iack", 14 * SECOND),
    ]


def read(tmp_path: Path) -> Rows:
    folder, given = tmp_path / "segments", sent_rows()
    parts: tuple[list[dict[str, Any]], ...] = (given[:3], [], given[3:])
    paths = [write_segment(folder / f"seg-{n:06}.arrow", prober_rows(*part)) for n, part in enumerate(parts)]
    return Rows(paths)


@pytest.mark.usefixtures("block")
def test_rows_are_in_the_order_of_their_targets(tmp_path: Path, block: int) -> None:
    found = read(tmp_path)
    expected = prober_rows(*sorted(sent_rows(), key=lambda row: int(row["target"])))
    assert (len(found), found.targets.tolist()) == (5, [2, 3, 4, 5, 6])
    blocks = list(found.blocks(5))
    assert pa.concat_tables(blocks).combine_chunks().equals(expected)
    assert max(table.num_rows for table in blocks) <= block
    assert found.slice(1, 4).equals(expected.slice(1, 3))
    assert [table.num_rows for table in found.blocks(0)] == [0]
    counted = counts.of(found.blocks(5, ["outcome", "attempts"]))
    assert counted.for_report() == {"sent": 3, "blocked": 1, "iack": 2, "send_failed": 1, "timeout": 1}
    with pytest.raises(InputError, match="no target has a row"):
        Rows([])


def test_the_last_probe_is_the_latest_of_all_earlier_ones(tmp_path: Path) -> None:
    pairs = [{"domain": row["domain"], "ip": row["ip"]} for row in sent_rows()]
    plan = pa.Table.from_pylist(pairs)
    before: list[list[tuple[str, str, int | None]]] = [
        [("b.test", "192.0.2.2", 4), ("a.test", "192.0.2.1", 3), ("e.test", "192.0.2.5", 6)],
        [("a.test", "192.0.2.1", None), ("e.test", "192.0.2.9", 7), ("e.test", "192.0.2.5", 5)],
    ]
    earlier = []
    for number, known in enumerate(before):
        earlier.append(tmp_path / f"{number}.parquet")
        columns = [dict(zip(("domain", "ip", "sent_at"), row, strict=True)) for row in known]
        pq.write_table(pa.Table.from_pylist(columns), earlier[-1])
    assert last_probes(plan, earlier).to_pylist() == [None, 3, None, 4, 6]
    assert last_probes(plan, earlier[1:]).to_pylist() == [None, None, None, None, 5]
    assert last_probes(plan, []).to_pylist() == [None] * 5


def test_a_record_file_of_one_block_is_what_parquet_writes_of_a_table(tmp_path: Path) -> None:
    table = merged(tmp_path, [])
    for expected in (table, table.slice(0, 0)):
        pq.write_table(expected, tmp_path / "expected.parquet", compression="zstd")
        assert merge.write([expected], tmp_path / "found.parquet") == expected.num_rows
        assert (tmp_path / "found.parquet").read_bytes() == (tmp_path / "expected.parquet").read_bytes()
    assert merge.write([table.slice(0, 2), table.slice(2)], tmp_path / "blocks.parquet") == 3
    blocks = pq.ParquetFile(tmp_path / "blocks.parquet")
    assert blocks.metadata.num_row_groups == 2
    assert blocks.read().equals(table)
    # Parquet and Arrow have different names for list items. Only a comparison of metadata detects this.
    schema = records.load("quic_probe").arrow_schema()
    assert blocks.schema_arrow.equals(schema) and blocks.schema_arrow.metadata == schema.metadata
