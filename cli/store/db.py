"""`firstflight db`: creates and lists the tables of the store."""

from __future__ import annotations

import click

from firstflight.system import stdout, terminal


@click.group(epilog="Example: firstflight db migrate")
def command() -> None:
    """Create the tables and views of the store, and show their state."""


@command.command(epilog="Example: FIRSTFLIGHT_STORE=chdb:/data/store firstflight db migrate")
def migrate() -> None:
    """Update tables, views and comments to this version of firstflight; idempotent."""
    from store import confined_command as confined
    from store import open_store
    from store.tables import migrate as migration

    confined.confine_to_writing()
    with open_store(write=True) as store:
        steps = migration.migrate(store)
        for step in steps:
            terminal.echo(f"{step.part} {step.name}")
        terminal.echo(f"{len(steps)} applied to the store in {store.location}", err=True)


@command.command(epilog="Example: firstflight db status")
def status() -> None:
    """List applied and pending changes, and the size of each table."""
    from firstflight.system import interrupt
    from store import confined_command as confined
    from store import open_store
    from store.tables import migrate as migration

    stdout.check_open()
    confined.confine_to_reading()
    with interrupt.exit_on_sigint(), open_store() as store:
        terminal.echo(f"store: {store.location}")
        for row in migration.applied(store):
            terminal.echo(f"applied  {str(row['applied_at'])[:19]}Z  {row['part']} {row['name']}")
        for step in migration.pending(store):
            terminal.echo(f"pending  {'':20}  {step.part} {step.name}")
        sizes = store.rows(
            "SELECT table, sum(rows) AS rows, sum(bytes_on_disk) AS bytes FROM system.parts "
            "WHERE active AND database = {database:String} GROUP BY table ORDER BY table",
            {"database": store.dialect.database},
        )
        for size in sizes:
            per_row = f", {size['bytes'] / size['rows']:.1f} a row" if size["rows"] else ""
            terminal.echo(f"table    {size['table']}: {size['rows']} rows, {size['bytes']} bytes{per_row}")


@command.command(epilog="Example: firstflight db check")
def check() -> None:
    """Compare every part of every table with its checksums; it reads the whole store.

    Exit status 3 if a part is damaged.
    """
    from firstflight.system import interrupt
    from store import confined_command as confined
    from store import open_store
    from store.tables import integrity

    stdout.check_open()
    confined.confine_to_reading()
    with interrupt.exit_on_sigint(), open_store() as store:
        rows = integrity.check(store)
    for table, count in rows.items():
        terminal.echo(f"table    {table}: {count} rows")
    terminal.echo(f"{len(rows)} tables, {sum(rows.values())} rows")


@command.command(
    epilog="Example: firstflight db retention quic_connection 18\n\nExample: firstflight db retention"
)
@click.argument("table", required=False)
@click.argument("months", required=False, metavar="MONTHS|forever")
def retention(table: str | None, months: str | None) -> None:
    """Show or set how many months a table keeps rows; without arguments, list all tables.

    The engine drops older rows by whole months, at the next merge. Record files are not removed; you can load
    them again.
    """
    from firstflight.errors import UsageError
    from store import confined_command as confined
    from store import open_store
    from store.tables import retention as kept

    if months is not None:
        assert table is not None  # click gives the first argument first
        if months != "forever" and not (months.isdigit() and 0 < int(months) <= 1200):
            raise UsageError(f"{months!r} is neither a number of months from 1 to 1200 nor `forever`")
        confined.confine_to_writing()
        with open_store(write=True) as store:
            kept.keep(store, table, None if months == "forever" else int(months))
    else:
        confined.confine_to_reading()
    with open_store() as store:
        tables = kept.partitioned_tables(store)
        if table is not None and all(table != period.table for period in tables):
            known = ", ".join(period.table for period in tables)
            raise UsageError(f"{table} has no retention by month; tables that do: {known}")
        for period in tables:
            if table in (None, period.table):
                terminal.echo(
                    f"{period.table}: {'forever' if period.months is None else f'{period.months} months'}"
                )
