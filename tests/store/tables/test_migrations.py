"""Tables, views and comments in the store match schemas/."""

from __future__ import annotations

import re

import pytest

from firstflight.errors import UsageError
from schemas import records, sql
from store import Store, open_store
from store.tables import migrate


def columns_of(store: Store, table: str) -> dict[str, dict[str, str]]:
    rows = store.rows(
        "SELECT name, type, comment, default_kind, default_expression FROM system.columns "
        "WHERE database = {database:String} AND table = {table:String} ORDER BY position",
        {"database": store.dialect.database, "table": table},
    )
    return {row["name"]: row for row in rows}


def sql_type(column: records.Column, given: str) -> str:
    """Return the required store type for a YAML column; if several types are allowed, `given` decides."""
    if column.type == "quantiles":
        return f"AggregateFunction({records.QUANTILES}, Int64)"
    names = {"string": "String", "bool": "Bool", "date": "Date"}
    scalar = column.type.removeprefix("list<").removesuffix(">")
    wanted = names.get(scalar) or re.sub("(u?)(int|float)", _capitals, scalar)
    if column.is_instant:
        wanted = "DateTime64(9, 'UTC')"
    if column.values and given.startswith("Enum8"):
        wanted = "Enum8(" + ", ".join(f"'{v}' = {n}" for n, v in enumerate(column.values, start=1)) + ")"
    if column.nullable:
        wanted = f"Nullable({wanted})"
    if "LowCardinality(" in given:
        wanted = f"LowCardinality({wanted})"
    return f"Array({wanted})" if column.is_list else wanted


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("kind", records.stored_names())
def test_table_has_the_columns_of_its_kind(kind: str) -> None:
    described = records.load(kind)
    with open_store() as store:
        found = columns_of(store, kind)
        comment = store.rows(
            "SELECT comment FROM system.tables WHERE database = currentDatabase() AND name = {t:String}",
            {"t": kind},
        )
    assert list(found) == [column.name for column in described.columns]
    for column in described.columns:
        assert found[column.name]["type"] == sql_type(column, found[column.name]["type"]), column.name
        assert found[column.name]["comment"] == column.comment
        # Only derived columns are computed.
        assert (found[column.name]["default_kind"] == "ALIAS") == bool(column.derived)
    assert comment == [{"comment": described.meaning}]


@pytest.mark.usefixtures("tables")
def test_derived_columns_are_computed_as_described() -> None:
    with open_store() as store:
        for kind in records.stored_names():
            for column in records.load(kind).columns:
                if column.derived:
                    given = columns_of(store, kind)[column.name]["default_expression"]
                    wanted = store.rows(
                        "SELECT formatQuery({q:String}) AS q", {"q": f"SELECT {column.derived}"}
                    )
                    have = store.rows("SELECT formatQuery({q:String}) AS q", {"q": f"SELECT {given}"})
                    assert have == wanted


@pytest.mark.usefixtures("tables")
def test_views_have_the_columns_that_are_described() -> None:
    with open_store() as store:
        for view in sql.views():
            found = columns_of(store, view.name)
            assert {name: row["comment"] for name, row in found.items()} == view.columns
            assert list(found) == list(view.columns), view.name
            assert not any(type_["type"].startswith("LowCardinality(Nullable") for type_ in found.values())


def test_second_migration_applies_nothing() -> None:
    with open_store(write=True) as store:
        first = migrate.migrate(store)
        assert {step.part for step in first} == {"migration", "view", "comment"}
        before = migrate.applied(store)
        assert migrate.migrate(store) == []
        assert migrate.applied(store) == before
    with open_store(write=True) as store:
        assert migrate.migrate(store) == []


ROWS = """
INSERT INTO quic_probe
(run, vantage, repetition, domain, ip, port, outcome, attempts, sent_at, ack_us, sh_us, bytes_sent)
SELECT
    'run', 'hamburg', 1, 'name' || toString(number), '198.18.0.' || toString(number), 443, 'iack', 1,
    toDateTime64('2026-11-20 06:00:00.5', 9, 'UTC'), 100 + number, 300, 1252
FROM numbers(5)
"""


def test_a_new_migration_keeps_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    statement = "SELECT domain, ip, outcome, sent_at, ack_us, ack_to_sh_us FROM quic_probe ORDER BY domain"
    text = "ALTER TABLE ${database}.quic_probe ${on_cluster} ADD COLUMN IF NOT EXISTS added UInt8 DEFAULT 7;"
    every = sql.migrations()
    with open_store(write=True) as store:
        migrate.migrate(store)
        store.execute(ROWS)
        before = store.rows(statement)
        monkeypatch.setattr(sql, "migrations", lambda: [*every, sql.Migration(len(every) + 1, "added", text)])
        assert [step.name for step in migrate.migrate(store)] == [f"{len(every) + 1:04d}_added"]
        assert store.rows(statement) == before
        assert store.rows("SELECT sum(added) AS n FROM quic_probe") == [{"n": 35}]
        # An earlier version refuses this store.
        monkeypatch.setattr(sql, "migrations", lambda: every)
        with pytest.raises(UsageError, match="_added, which this version of firstflight does not know"):
            migrate.migrate(store)


def test_a_store_made_before_the_first_release_is_refused() -> None:
    with open_store(write=True) as store:
        migrate.migrate(store)
        store.execute(
            f"INSERT INTO {store.dialect.database}.schema_migration (part, name, sha256, applied_at) "
            "VALUES ('migration', '0001_quic_probe', '', '2026-11-01 00:00:00')"
        )
        with pytest.raises(UsageError, match=r"a version before 0\.1\.0 made the store in .*: name a new"):
            migrate.migrate(store)


def test_broken_off_migration_is_done_again() -> None:
    with open_store(write=True) as store:
        migrate.migrate(store)
        # Simulate a kill between the creation of the tables and its record.
        database = store.dialect.database
        store.execute(f"ALTER TABLE {database}.schema_migration DELETE WHERE part = 'migration'")
        assert {step.part for step in migrate.migrate(store)} == {"migration"}
        assert migrate.migrate(store) == []


def test_a_changed_view_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(write=True) as store:
        migrate.migrate(store)
        views = [view if view.name != "newest_run" else _other(view) for view in sql.views()]
        monkeypatch.setattr(sql, "views", lambda: views)
        assert [step.name for step in migrate.migrate(store)] == ["newest_run"]
        assert store.rows("SELECT run FROM newest_run") == [{"run": "none"}]


def test_changed_migration_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(write=True) as store:
        migrate.migrate(store)
        first, *rest = sql.migrations()
        changed = sql.Migration(first.version, first.name, first.text + "\n")
        monkeypatch.setattr(sql, "migrations", lambda: [changed, *rest])
        with pytest.raises(UsageError, match="0001_runs is not the text"):
            migrate.migrate(store)
        monkeypatch.setattr(sql, "migrations", lambda: [first])
        with pytest.raises(UsageError, match="does not know"):
            migrate.migrate(store)


def test_all_statements_can_be_rendered_for_a_cluster() -> None:
    cluster = sql.Dialect("firstflight", cluster="measurements")
    texts = [text for migration in sql.migrations() for text in migration.statements(cluster)]
    texts += [view.statement(cluster) for view in sql.views()] + sql.bootstrap(cluster)
    with open_store(write=True) as store:
        for text in texts:
            # Inserts are replicated without ON CLUSTER.
            assert "ON CLUSTER 'measurements'" in text or text.startswith("INSERT INTO")
            assert not re.search(r"ENGINE = (?!Replicated)", text)
            store.rows(f"EXPLAIN AST {text}")  # the engine's parser accepts it


def _other(view: sql.View) -> sql.View:
    return sql.View(view.name, view.meaning, view.columns, "SELECT 'none' AS run")


def _capitals(found: re.Match[str]) -> str:
    return found[1].upper() + found[2].capitalize()
