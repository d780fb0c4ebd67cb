"""`firstflight db`: the tables of the store."""

from __future__ import annotations

import click


@click.group(epilog="Example: firstflight db migrate")
def command() -> None:
    """Create the tables and views of the store, and say what stands there."""


@command.command(epilog="Example: FIRSTFLIGHT_STORE=chdb:/data/store firstflight db migrate")
def migrate() -> None:
    """Bring tables, views and comments to this version of firstflight; a second time does nothing."""
    from firstflight.store import migrate as migration
    from firstflight.store import open_store

    with open_store(write=True) as store:
        steps = migration.migrate(store)
        for step in steps:
            click.echo(f"{step.part} {step.name}")
        click.echo(f"{len(steps)} applied to the store in {store.place}", err=True)


@command.command(epilog="Example: firstflight db status")
def status() -> None:
    """List what was applied, what is pending, and the size of each table."""
    from firstflight.store import migrate as migration
    from firstflight.store import open_store

    with open_store() as store:
        click.echo(f"store: {store.place}")
        for row in migration.applied(store):
            click.echo(f"applied  {str(row['applied_at'])[:19]}Z  {row['part']} {row['name']}")
        for step in migration.pending(store):
            click.echo(f"pending  {'':20}  {step.part} {step.name}")
        sizes = store.rows(
            "SELECT table, sum(rows) AS rows, sum(bytes_on_disk) AS bytes FROM system.parts "
            "WHERE active AND database = {database:String} GROUP BY table ORDER BY table",
            {"database": store.dialect.database},
        )
        for size in sizes:
            per_row = f", {size['bytes'] / size['rows']:.1f} a row" if size["rows"] else ""
            click.echo(f"table    {size['table']}: {size['rows']} rows, {size['bytes']} bytes{per_row}")
