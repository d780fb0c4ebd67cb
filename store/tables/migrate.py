"""Updates a store's tables, views and comments to schemas/; a second run does nothing."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

from firstflight.errors import UsageError
from schemas import records, sql
from store import lease
from store.base import Store
from store.errors import ACCESS_DENIED, StoreError
from store.sql import literal

_LOG = "schema_migration"
# Another program's migration may be some 200 statements, which a busy server or cluster executes slowly.
_WAIT_S = 600.0
# The first migration of stores made before 0.1.0, which started with a new set of migrations.
_BEFORE_0_1_0 = "0001_quic_probe"


@dataclass(frozen=True)
class MigrationStep:
    """A step to apply: `part` is migration, view or comment; `digest` identifies the content."""

    part: str
    name: str
    digest: str
    statements: tuple[str, ...]


def pending(store: Store) -> list[MigrationStep]:
    """Return the steps a migration would apply, in order; UsageError if another version made the store."""
    applied = _applied(store)
    if ("migration", _BEFORE_0_1_0) in applied:
        raise UsageError(
            f"a version before 0.1.0 made the store in {store.location}: name a new store and load the runs "
            "again (`firstflight load RUN...`)"
        )
    known = {_migration_name(migration): migration for migration in sql.migrations()}
    for (part, name), digest in applied.items():
        if part != "migration":
            continue
        if name not in known:
            raise UsageError(
                f"the store in {store.location} has migration {name}, which this version of firstflight does "
                "not know: use the version that made it, or a later one"
            )
        if known[name].digest != digest:
            raise UsageError(
                f"migration {name} is not the text that was applied to the store in {store.location}: "
                "released migrations never change, a change needs a new one"
            )
    return [step for step in _steps(store) if applied.get((step.part, step.name)) != step.digest]


def migrate(store: Store) -> list[MigrationStep]:
    """Apply the pending steps and return them. The store is open for writing."""
    _check_shards(store)
    try:
        if not _has_logs(store):
            for statement in sql.bootstrap(store.dialect):
                store.execute(statement)
        if not pending(store):
            return []
        with lease.hold_all(store, ["migrations"], _WAIT_S) as leases:
            return _apply(store, leases)
    except StoreError as error:
        if error.code != ACCESS_DENIED:
            raise
        raise UsageError(
            f"the store in {store.location} lacks tables or views of this version, and this user may not "
            "make them: run `firstflight db migrate` at the centre"
        ) from error


def _apply(store: Store, leases: list[lease.Lease]) -> list[MigrationStep]:
    steps = pending(store)
    for batch in _batches(steps):
        # Each statement can be repeated, so an interrupted batch is repeated as a whole.
        for statement in (statement for step in batch for statement in step.statements):
            for held in leases:
                held.keep()
            store.execute(statement)
        _record(store, batch)
    return steps


def _batches(steps: list[MigrationStep]) -> list[list[MigrationStep]]:
    """Group the steps that one insert records: a migration, all views, or all comments.

    An insert takes longer than a view or a comment.
    """
    alone = [[step] for step in steps if step.part == "migration"]
    together = [[step for step in steps if step.part == part] for part in ("view", "comment")]
    return [*alone, *filter(None, together)]


def _record(store: Store, steps: list[MigrationStep]) -> None:
    """Record applied steps."""
    rows = ", ".join(
        f"({literal(step.part)}, {literal(step.name)}, {literal(step.digest)})" for step in steps
    )
    store.execute(
        f"INSERT INTO {store.dialect.database}.{_LOG} (part, name, sha256, applied_at) "
        f"SELECT step.1, step.2, step.3, now64(9, 'UTC') FROM (SELECT arrayJoin([{rows}]) AS step)"
    )


def outdated(store: Store) -> str:
    """Return the message for a store that lacks tables or views of this version."""
    return (
        f"the store in {store.location} lacks tables or views of this version of firstflight: "
        "bring it up to date with `firstflight db migrate`"
    )


def applied(store: Store) -> list[dict[str, object]]:
    """Return the applied steps in order: part, name, sha256, applied_at. Empty for a store without tables."""
    if _LOG not in _tables(store):
        return []
    store.catch_up(_LOG)
    return store.rows(
        "SELECT part, name, sha256, applied_at "
        f"FROM {store.dialect.database}.{_LOG} ORDER BY applied_at, name"
    )


def _applied(store: Store) -> dict[tuple[str, str], str]:
    """Map (part, name) to the digest of the text that was applied last."""
    return {(str(row["part"]), str(row["name"])): str(row["sha256"]) for row in applied(store)}


def _has_logs(store: Store) -> bool:
    return {_LOG, lease.TABLE} <= _tables(store)


def _tables(store: Store) -> set[str]:
    rows = store.rows(
        "SELECT name FROM system.tables WHERE database = {database:String}",
        {"database": store.dialect.database},
    )
    return {str(row["name"]) for row in rows}


def _check_shards(store: Store) -> None:
    """UsageError if the tables were made with another value of the option `sharded`."""
    rows = store.rows(
        "SELECT engine = 'Distributed' AS sharded FROM system.tables "
        "WHERE database = {database:String} AND name = 'quic_probe'",
        {"database": store.dialect.database},
    )
    if rows and bool(rows[0]["sharded"]) != store.dialect.sharded:
        made = "without" if store.dialect.sharded else "with"
        raise UsageError(
            f"the tables in {store.location} were made {made} sharded=1: "
            "use the same option, or another database"
        )


def _steps(store: Store) -> list[MigrationStep]:
    """Return all steps for an empty store, in order."""
    steps = [
        MigrationStep("migration", _migration_name(m), m.digest, tuple(m.statements(store.dialect)))
        for m in sql.migrations()
    ]
    # A view is recreated with its comments: CREATE OR REPLACE drops the old ones.
    for view in sql.views():
        comments = _comment(store, view.name, view.meaning, list(view.columns.items()))
        steps.append(
            MigrationStep("view", view.name, view.digest, (view.statement(store.dialect), *comments))
        )
    for name in records.stored_names():
        kind = records.load(name)
        columns = [(column.name, column.comment) for column in kind.columns]
        digest = sha256(repr((kind.meaning, columns)).encode()).hexdigest()
        steps.append(
            MigrationStep("comment", name, digest, tuple(_comment(store, name, kind.meaning, columns)))
        )
    return steps


def _comment(store: Store, table: str, meaning: str, columns: list[tuple[str, str]]) -> list[str]:
    """Return the statements that set the comments for a table or view; with shards, there may be two."""
    actions = [f"MODIFY COMMENT {literal(meaning)}"]
    actions += [f"COMMENT COLUMN `{name}` {literal(comment)}" for name, comment in columns]
    target = store.dialect.render(f"ALTER TABLE ${{database}}.{table} ${{on_cluster}} ")
    return list(store.dialect.each(target + ", ".join(actions)))


def _migration_name(migration: sql.Migration) -> str:
    return f"{migration.version:04d}_{migration.name}"
