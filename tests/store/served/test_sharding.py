"""Statements for a cluster with several shards: the engine accepts them, and tables in a pair stay equal."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from chdb.state.sqlitelike import Connection

from firstflight.errors import UsageError
from reports import query
from schemas import records, sharding, sql
from store import open_store
from store.address.url import parse
from store.base import Store
from store.tables import migrate, retention

SHARDED = sql.Dialect("firstflight", "measurements", sharded=True)
ROOT = Path(__file__).parents[3]
CLUSTER = "ON CLUSTER 'measurements'"


class Recorder:
    """A store with several shards that returns `answers`, in order, and records its statements."""

    location = "nowhere"
    dialect = SHARDED

    def __init__(self, *answers: Sequence[dict[str, Any]]) -> None:
        self.answers = list(answers)
        self.executed: list[str] = []

    def rows(self, _sql: str, _parameters: object = None) -> Sequence[dict[str, Any]]:
        return self.answers.pop(0)

    def execute(self, text: str, _parameters: object = None) -> None:
        self.executed.append(text)


def definitions() -> list[str]:
    """Return all statements that a migration of an empty store runs."""
    steps = migrate._steps(Recorder())  # type: ignore[arg-type]
    return sql.bootstrap(SHARDED) + [text for step in steps for text in step.statements]


def retentions() -> list[str]:
    made = "ENGINE = X PARTITION BY toYYYYMM(day) TTL day + toIntervalMonth(3)"
    listed = [{"name": "quic_probe_local", "partition_key": "toYYYYMM(day)", "made": made}]
    statements: list[str] = []
    for months in (18, None):
        store = Recorder(listed, listed)
        retention.keep(store, "quic_probe", months)  # type: ignore[arg-type]
        statements += store.executed
    return statements


def others() -> list[str]:
    """Return the statements of the loader, of retention, and all named queries."""
    given = {"changed_behaviour": {"since": "2026-11-25"}}
    named = [query.load(name).rendered(given.get(name, {}), SHARDED) for name in query.names()]
    derived = [
        text
        for name in ("origins", "organisations", "probe_day", "probe_unit")
        for text in sql.derived(name, SHARDED, units="run = 'a'")
    ]
    loader = [f"ALTER TABLE {SHARDED.rows_of(name)} DELETE WHERE run = 'a'" for name in ("run", "quic_probe")]
    waits = [SHARDED.caught_up(name) for name in ("lease", "quic_probe")]
    return [*named, *derived, *loader, *waits, *retentions()]


def test_the_engine_takes_every_statement() -> None:
    with open_store(write=True) as store:
        for text in definitions() + others():
            store.rows(f"EXPLAIN AST {text}")


def test_definitions_reach_every_server_and_no_engine_is_plain() -> None:
    for text in definitions():
        assert CLUSTER in text or text.startswith("INSERT INTO"), text
        assert not re.search(r"ENGINE = (?!Replicated|Distributed)", text), text


@pytest.mark.parametrize("kind", records.stored_names())
def test_a_table_is_sharded_by_name_or_not_at_all(kind: str) -> None:
    made = [text for text in definitions() if re.match(rf"CREATE TABLE (IF NOT EXISTS )?\S+\.{kind}\b", text)]
    rows = [t for t in definitions() if re.match(rf"CREATE TABLE (IF NOT EXISTS )?\S+\.{kind}_local\b", t)]
    has_name = {"domain", "sni"} & {column.name for column in records.load(kind).columns}
    assert sharding.is_sharded(kind) == bool(has_name)
    if has_name:
        assert f"'{kind}_local', {sharding.KEYS[kind]})" in made[0]
        assert len(rows) == 1
    else:
        assert "MergeTree('/clickhouse/tables/{uuid}/whole', '{shard}-{replica}'" in made[0]
        assert not rows


@pytest.mark.parametrize(
    ("page", "begin", "end"),
    [
        ("store.md", "**Several shards**", "All rows for a name"),
        ("design/0018-sharded-store.md", "**Sharded by name.**", " are pairs."),
    ],
)
def test_pages_name_the_sharded_tables(page: str, begin: str, end: str) -> None:
    """The page lists tables sharded by name first, and the two tables sharded by SNI last."""
    text = " ".join((ROOT / "docs" / page).read_text(encoding="utf-8").split())
    _, after = text.split(begin)
    listing, *rest = after.split(end)
    assert rest, f"{page} has no {end!r} after {begin!r}"
    listed = re.findall(r"`([a-z0-9_]+)`", listing)
    by_sni = [table for table, key in sharding.KEYS.items() if "sni" in key]
    assert listed[-len(by_sni) :] == by_sni
    assert sorted(listed) == sorted(sharding.KEYS)


def test_statements_about_rows_name_the_table_that_has_them() -> None:
    assert SHARDED.rows_of("quic_probe") == f"firstflight.quic_probe_local {CLUSTER}"
    assert SHARDED.rows_of("run") == "firstflight.run"
    assert SHARDED.caught_up("target") == f"SYSTEM SYNC REPLICA {CLUSTER} firstflight.target_local"
    assert SHARDED.caught_up("load_file") == "SYSTEM SYNC REPLICA firstflight.load_file"
    assert all(
        text.startswith(f"ALTER TABLE firstflight.quic_probe_local {CLUSTER}") for text in retentions()
    )
    store = Recorder([{"name": "quic_probe_local", "partition_key": "toYYYYMM(day)", "made": ""}])
    assert retention.partitioned_tables(store) == [retention.Retention("quic_probe", None)]  # type: ignore[arg-type]


@pytest.mark.parametrize("dialect", [sql.Dialect("firstflight"), sql.Dialect("firstflight", "one")])
def test_other_stores_have_no_pairs(dialect: sql.Dialect) -> None:
    texts = [text for migration in sql.migrations() for text in migration.statements(dialect)]
    assert not [text for text in texts if "_local" in text or "Distributed" in text or "{uuid}" in text]
    parts = [re.split(r";[ \t]*\n", sql._without_comments(dialect.render(m.text))) for m in sql.migrations()]
    assert texts == [part.strip().rstrip(";") for statements in parts for part in statements if part.strip()]
    assert dialect.settings == {}
    assert dialect.rows_of("quic_probe") == "firstflight.quic_probe"
    assert dialect.caught_up("quic_probe") == "SYSTEM SYNC REPLICA firstflight.quic_probe"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """An engine with a cluster that has a single unreachable server, so it can only define tables."""
    config = tmp_path / "config.xml"
    config.write_text(
        "<clickhouse><remote_servers><measurements><shard><replica><host>127.0.0.1</host><port>9</port>"
        "</replica></shard></measurements></remote_servers></clickhouse>"
    )
    connection = Connection(f"{tmp_path / 'engine'}?config-file={config}")
    yield lambda text: str(connection.query(text, "TSV"))
    connection.close()


def test_both_tables_of_a_pair_have_the_same_columns_after_all_migrations(
    engine: Callable[[str], str],
) -> None:
    """The real Distributed engine accepts every ALTER."""
    plain = re.compile(
        r" ON CLUSTER 'measurements'|(?<= )Replicated(?=\w*MergeTree)|'/clickh.*?replica}'(, )?"
    )
    for text in definitions():
        if not text.startswith("INSERT INTO"):
            engine(plain.sub("", text))
    for table in sharding.KEYS:
        columns = (
            "SELECT name, type, default_kind, default_expression, comment FROM system.columns "
            "WHERE database = 'firstflight' AND table = '{}' ORDER BY position"
        )
        have = engine(columns.format(table))
        assert have == engine(columns.format(sharding.local(table)))
        assert have.count("\n") == len(records.load(table).columns)
    engines = engine("SELECT name, engine FROM system.tables WHERE engine = 'Distributed' ORDER BY name")
    assert engines.split() == [word for table in sorted(sharding.KEYS) for word in (table, "Distributed")]


def test_the_address_selects_sharding() -> None:
    assert parse("clickhouse://host/db?cluster=all&sharded=1", "d").sharded
    assert not parse("clickhouse://host/db?cluster=all&sharded=0", "d").sharded
    with pytest.raises(UsageError, match="sharded needs the option cluster"):
        parse("clickhouse://host/db?sharded=1", "d")


@pytest.mark.parametrize(
    ("dialect", "found", "refused"),
    [
        (SHARDED, [], None),
        (SHARDED, [{"sharded": 1}], None),
        (SHARDED, [{"sharded": 0}], "were made without sharded=1"),
        (sql.Dialect("firstflight", "one"), [{"sharded": 0}], None),
        (sql.Dialect("firstflight", "one"), [{"sharded": 1}], "were made with sharded=1"),
    ],
)
def test_tables_of_the_other_kind_are_refused(
    dialect: sql.Dialect, found: list[dict[str, int]], refused: str | None
) -> None:
    recorder = Recorder(found)
    recorder.dialect = dialect
    store: Store = recorder  # type: ignore[assignment]
    if refused is None:
        migrate._check_shards(store)
        return
    with pytest.raises(UsageError, match=refused):
        migrate._check_shards(store)
