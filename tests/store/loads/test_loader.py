"""Loading twice, loading changed files, and refusing broken ones."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firstflight.errors import FirstflightError
from schemas import records
from store import Store, open_store
from store.load import loader, origin, record_file, units
from store.load.loader import Loaded, RefusedFile, Result
from tests import memory
from tests.store.rows import DAY_NS, many, probe, write

pytestmark = pytest.mark.usefixtures("emptied_tables")


def load(*paths: Path) -> list[Result]:
    return loader.load_files(paths)


def actions(results: list[Result]) -> list[str]:
    return [result.action if isinstance(result, Loaded) else "refused" for result in results]


def refusal(path: Path) -> str:
    """Load a file that must be refused; return the error message."""
    (result,) = load(path)
    assert isinstance(result, RefusedFile)
    assert str(path) in str(result.error)
    return str(result.error)


def ask(query: str) -> list[dict[str, Any]]:
    with open_store() as store:
        return store.rows(query)


def digest() -> list[dict[str, Any]]:
    """Return count and content of all probes, independent of their order."""
    return ask(
        "SELECT count() AS n, groupBitXor(cityHash64(tuple(*))) AS content FROM "
        "(SELECT * EXCEPT source_file FROM quic_probe)"
    )


def test_every_value_arrives_as_it_was(tmp_path: Path) -> None:
    row = probe(
        "iack",
        ip="2001:DB8::0:1",  # as given, not in canonical form
        sent_at=DAY_NS + 987_654_321,
        client_cid="00ff00ff00ff00ff",
        server_cid="0102030405060708090a0b0c0d0e0f1011121314",
        ack_frames="ack,padding",
        ack_eliciting=False,
        gap_before_sh=True,
        since_last_probe_s=86_400.5,
        ttl=57,
        close_code=None,
    )
    load(write(tmp_path / "quic_probe.parquet", [row]))
    (stored,) = ask("SELECT *, toUnixTimestamp64Nano(sent_at) AS ns FROM quic_probe")
    assert stored.pop("ns") == row["sent_at"]
    assert stored.pop("sent_at") == "2026-11-20 06:00:00.987654321"
    assert stored.pop("source_file") == origin.name_outside(tmp_path / "quic_probe.parquet")
    assert stored["amplification"] == pytest.approx(row["amplification"], rel=1e-6)
    assert stored.pop("day") == "2026-11-20"
    assert stored.pop("family") == 6
    for name, value in stored.items():
        if name != "amplification":
            assert value == row[name], name


def test_files_with_instants_as_numbers_are_loaded_too(tmp_path: Path) -> None:
    """Versions before 0.1.0 wrote ns since 1970 as int64. Files with equal rows have equal content."""
    path = write(
        tmp_path / "quic_probe.parquet",
        [probe(sent_at=DAY_NS + 1), probe(domain="b.example", sent_at=DAY_NS + 999_999_999)],
    )
    load(path)
    times = "SELECT first_at, last_at, rows FROM load_file FINAL"
    content, log = digest(), ask(times)
    assert log[0]["first_at"] < log[0]["last_at"]
    table = pq.read_table(path)
    assert table.schema.field("sent_at").type == pa.timestamp("ns", "UTC")
    pq.write_table(records.with_numbers(table), path)
    assert actions(load(path)) == ["replaced"]
    assert (digest(), ask(times)) == (content, log)


def test_null_is_not_zero(tmp_path: Path) -> None:
    load(write(tmp_path / "quic_probe.parquet", [probe("timeout"), probe("blocked", domain="b.example")]))
    found = ask(
        "SELECT ack_us, sh_us, ack_to_sh_us, ack_delay_us, amplification FROM quic_probe ORDER BY domain"
    )
    nothing = {"ack_us": None, "sh_us": None, "ack_to_sh_us": None, "ack_delay_us": None}
    assert found == [nothing | {"amplification": 0}, nothing | {"amplification": None}]


def test_a_file_loaded_twice_changes_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "quic_probe.parquet", many(500))
    assert actions(load(path)) == ["loaded"]
    first, books = digest(), ask("SELECT * FROM load_file FINAL")
    parts = ask("SELECT count() AS n FROM system.parts WHERE active AND table = 'load_file'")
    assert parts == [{"n": 1}], "a load merges the load log"
    assert actions(load(path)) == ["unchanged"]
    assert actions(load(path, path)) == ["unchanged", "unchanged"]
    copy = tmp_path / "elsewhere" / "quic_probe.parquet"
    copy.parent.mkdir()
    shutil.copy(path, copy)
    assert actions(load(copy)) == ["unchanged"]
    assert digest() == first
    assert ask("SELECT * FROM load_file FINAL") == books


def test_a_file_that_was_made_again_replaces_its_rows_and_no_others(tmp_path: Path) -> None:
    path = write(tmp_path / "1" / "quic_probe.parquet", many(50))
    other = write(tmp_path / "2" / "quic_probe.parquet", many(70, repetition=2))
    load(path, other)
    write(path, many(40, outcome="coalesced"))
    assert actions(load(path, other)) == ["replaced", "unchanged"]
    found = ask(
        "SELECT repetition, toString(outcome) AS o, count() AS n FROM quic_probe GROUP BY ALL ORDER BY ALL"
    )
    assert found == [{"repetition": 1, "o": "coalesced", "n": 40}, {"repetition": 2, "o": "iack", "n": 70}]


def test_a_file_that_is_empty_now_removes_what_it_held(tmp_path: Path) -> None:
    path = write(tmp_path / "quic_probe.parquet", many(5))
    load(path)
    write(path, [])
    assert actions(load(path)) == ["replaced"]
    assert actions(load(path)) == ["unchanged"]
    assert ask("SELECT count() AS n FROM quic_probe") == [{"n": 0}]


def test_rows_that_vanished_from_the_store_are_loaded_again(tmp_path: Path) -> None:
    path = write(tmp_path / "quic_probe.parquet", many(50))
    load(path)
    before = digest()
    with open_store(write=True) as store:
        store.execute("ALTER TABLE quic_probe DELETE WHERE domain < 'name000010'")
    assert actions(load(path)) == ["replaced"]
    assert digest() == before


@pytest.mark.parametrize("broken_at", ["first block", "second block", "end"])
def test_a_load_broken_off_is_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken_at: str
) -> None:
    """Create the state after a crash at each point, in order; the next load repairs it."""
    monkeypatch.setattr(record_file, "BATCH_ROWS", 100)
    path = write(tmp_path / "quic_probe.parquet", many(250))
    load(path)
    good = digest()
    rewritten = write(path, many(250, outcome="coalesced"))

    class Crash(Exception):
        pass

    with monkeypatch.context() as crashing:
        if broken_at == "end":
            crashing.setattr(units.Units, "end", _raising(Crash))
        else:
            crashing.setattr(
                _store_class(), "insert", _raising(Crash, after=int(broken_at == "second block"))
            )
        with pytest.raises(Crash):
            load(rewritten)
    partial = {"first block": 0, "second block": 100, "end": 250}[broken_at]
    assert ask("SELECT count() AS n FROM quic_probe") == [{"n": partial}]
    # The earlier file is loaded again: it is in the load log, but the store no longer has its rows.
    write(path, many(250))
    assert actions(load(path)) == ["replaced" if partial else "loaded"]
    assert digest() == good


def _store_class() -> type[Store]:
    from store.backends.embedded import EmbeddedStore

    return EmbeddedStore


def _raising(error: type[Exception], after: int = 0) -> Any:
    """Replaces a method: calls it `after` times, then raises."""
    real = _store_class().insert
    calls = 0

    def method(self: Any, *arguments: Any, **named: Any) -> None:
        nonlocal calls
        calls += 1
        if calls > after:
            raise error
        real(self, *arguments, **named)

    return method


def test_rows_lost_on_the_way_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "quic_probe.parquet", many(10))
    with monkeypatch.context() as losing:
        losing.setattr(record_file.RecordFile, "stored", _half(record_file.RecordFile.stored))
        with pytest.raises(FirstflightError, match="10 rows in the file, 5 in the store"):
            load(path)
    assert actions(load(path)) == ["replaced"]
    assert ask("SELECT count() AS n FROM quic_probe") == [{"n": 10}]


def _half(stored: Any) -> Any:
    return lambda self, table: stored(self, table).slice(0, table.num_rows // 2)


@pytest.mark.parametrize("length", [0, 3, 1_000, -1])
def test_a_truncated_file_is_refused_by_name_and_the_others_are_loaded(tmp_path: Path, length: int) -> None:
    broken = write(tmp_path / "1" / "quic_probe.parquet", many(300))
    good = write(tmp_path / "2" / "quic_probe.parquet", many(300, repetition=2))
    broken.write_bytes(broken.read_bytes()[:length])
    results = load(broken, good)
    assert actions(results) == ["refused", "loaded"]
    assert isinstance(results[0], RefusedFile)
    assert str(broken) in str(results[0].error)
    assert ask("SELECT count() AS n, any(repetition) AS r FROM quic_probe") == [{"n": 300, "r": 2}]


def test_a_file_damaged_in_the_middle_is_refused_completely(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_file, "BATCH_ROWS", 100)
    path = tmp_path / "quic_probe.parquet"
    table = pa.Table.from_pylist(many(1_000), schema=records.load("quic_probe").arrow_schema())
    pq.write_table(table, path, compression="zstd", row_group_size=200, write_page_checksum=True)
    names = pq.ParquetFile(path).metadata.row_group(3).column(5)
    content = bytearray(path.read_bytes())
    content[names.data_page_offset - 10] ^= 0xFF  # the end of the dictionary with the names
    path.write_bytes(bytes(content))
    assert "damaged" in refusal(path)
    assert ask("SELECT count() AS n FROM quic_probe") == [{"n": 0}]


_LOAD = """
import sys
from pathlib import Path
from store.load import loader
(done,) = loader.load_files([Path(sys.argv[1])], sys.argv[2])
assert done.in_store == int(sys.argv[3])
"""


def test_memory_does_not_grow_with_a_file_of_many_batches(tmp_path: Path) -> None:
    rows = pa.Table.from_pylist(many(20_000), schema=records.load("quic_probe").arrow_schema())
    few, several = 3, 10
    peaks = []
    for times in (few, several):
        path = tmp_path / str(times) / "quic_probe.parquet"
        path.parent.mkdir()
        pq.write_table(pa.concat_tables([rows] * times), path, row_group_size=1 << 15)
        store = f"chdb:{path.parent / 'store'}"
        peaks.append(memory.peak_bytes(_LOAD, str(path), store, str(times * rows.num_rows)))
    # With the whole file in a single batch, a row needs 1,800 bytes. The store's merges need about 60 bytes.
    assert (peaks[1] - peaks[0]) / ((several - few) * rows.num_rows) < 600


def test_small_row_groups_are_joined_within_the_bounds_of_a_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "quic_probe.parquet"
    table = pa.Table.from_pylist(many(1_000), schema=records.load("quic_probe").arrow_schema())
    pq.write_table(table, path, row_group_size=30)

    def sizes(rows: int, size: int) -> list[int]:
        monkeypatch.setattr(record_file, "BATCH_ROWS", rows)
        monkeypatch.setattr(record_file, "BATCH_BYTES", size)
        batches = list(record_file.RecordFile(path, {"source_file": "x"}).batches())
        assert pa.concat_tables(batches).equals(table)
        assert all(column.num_chunks == 1 for batch in batches for column in batch.columns)
        return [batch.num_rows for batch in batches]

    assert sizes(1 << 16, 1 << 30) == [1_000]
    assert sizes(100, 1 << 30) == [90] * 10 + [100]
    assert sizes(20, 1 << 30) == [20, 10] * 32 + [20, 20]
    assert sizes(1 << 16, 1) == [30] * 33 + [10]


def _with(path: Path, column: str, values: pa.Array) -> Path:
    """Write three probes, with one column replaced by values of any type."""
    table = pa.Table.from_pylist(many(3), schema=records.load("quic_probe").arrow_schema())
    place = table.schema.get_field_index(column)
    pq.write_table(table.set_column(place, column, values), path)
    return path


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("outcome", pa.array(["iack", "iak", "iack"]), "row 2: outcome is not one of iack, coalesced"),
        ("domain", pa.array(["a", "b", None]), "row 3: domain is null"),
        ("repetition", pa.array([1, 70_000, 1]), "repetition"),
        ("ack_us", pa.array([1.5, 2.0, 3.0]), "ack_us"),
        ("ack_to_sh_us", pa.array([3_200, 3_201, None]), "ack_to_sh_us is not sh_us - ack_us in 2 rows"),
        (
            "ack_delay_us",
            pa.array([200, 25, 200]),
            r"ack_delay_us is not if\(.*ack_delay_raw \* 8.* in 1 rows",
        ),
    ],
)
def test_rows_that_contradict_their_kind_are_refused(
    tmp_path: Path, column: str, values: pa.Array, message: str
) -> None:
    (result,) = load(_with(tmp_path / "quic_probe.parquet", column, values))
    assert isinstance(result, RefusedFile)
    with pytest.raises(FirstflightError, match=message):
        raise result.error
    assert ask("SELECT count() AS n FROM quic_probe") == [{"n": 0}]


def test_columns_too_many_or_too_few_are_named(tmp_path: Path) -> None:
    table = pa.Table.from_pylist(many(3), schema=records.load("quic_probe").arrow_schema())
    path = tmp_path / "quic_probe.parquet"
    pq.write_table(table.drop_columns(["sh_us", "ttl"]).append_column("mood", pa.array(["good"] * 3)), path)
    assert "lacks sh_us, ttl and has mood" in refusal(path)


def test_a_file_of_no_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.parquet"
    pq.write_table(pa.table({"a": [1]}), path)
    assert "there is no record kind 'notes'" in refusal(path)
    books = tmp_path / "load_file.parquet"
    pq.write_table(pa.table({"a": [1]}), books)
    assert "not loaded from files" in refusal(books)


def test_targets_need_their_run(tmp_path: Path) -> None:
    path = write(tmp_path / "targets.parquet", [{"rank": 1, "domain": "a.example", "list_id": "L"}], "target")
    assert "load them from the run's folder" in refusal(path)


def test_a_duplicate_column_is_refused(tmp_path: Path) -> None:
    table = pq.read_table(write(tmp_path / "quic_probe.parquet", [probe()]))
    twice = pa.Table.from_arrays([*table.columns, table.column("run")], [*table.schema.names, "run"])
    pq.write_table(twice, tmp_path / "quic_probe.parquet")
    assert refusal(tmp_path / "quic_probe.parquet").endswith("it has run twice")


def test_memory_does_not_grow_with_the_row_groups_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow's batch reader keeps all data that it has read: 0.6 GB for a file with ten million rows."""
    monkeypatch.setattr(record_file, "BATCH_ROWS", 4_000)
    folder = tmp_path / "quic_probe.parquet"
    table = pa.Table.from_pylist(many(4_000), schema=records.load("quic_probe").arrow_schema())
    cids = [f"{number * 0x9E3779B97F4A7C15 % 2**160:040x}" for number in range(4_000)]
    place = table.schema.get_field_index("server_cid")
    table = table.set_column(place, table.schema.field("server_cid"), pa.array(cids))
    with pq.ParquetWriter(folder, table.schema, compression="none", use_dictionary=False) as writer:
        for _ in range(12):
            writer.write_table(table)
    pool = pa.default_memory_pool()
    allocated = []
    for batch in record_file.RecordFile(folder, {"source_file": "x"}).batches():
        allocated.append(pool.bytes_allocated())
        assert batch.num_rows == 4_000
    assert len(allocated) == 12
    assert max(allocated) < 1.5 * allocated[0], allocated
