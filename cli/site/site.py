"""`firstflight site`: watches a machine of a site, and backs up its parts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

from firstflight.system import terminal

# click checks by access(2), which ignores capabilities. The size of a disk can be read without any right.
PATH = click.Path(path_type=Path, readable=False)


@click.group(epilog="Example: firstflight site metrics --disk /var/lib/firstflight")
def command() -> None:
    """Watch a machine of a site, and back up its parts (docs/reference/site-machines.md)."""


@command.command(
    epilog="Example: firstflight site metrics --disk /var/lib/firstflight --certificate chain.pem "
    "--backups /var/backups/firstflight --part settings"
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", default=9102, show_default=True, type=click.IntRange(0, 65535), help="Port; 0: any free port."
)
@click.option("--disk", "disks", type=PATH, multiple=True, help="Folder on a disk to watch; repeatable.")
@click.option(
    "--certificate",
    "certificates",
    type=PATH,
    multiple=True,
    help="Certificate chain (PEM) to watch; repeatable.",
)
@click.option("--backups", type=PATH, help="Folder of `site backup`.")
@click.option(
    "--part", "parts", multiple=True, metavar="PART", help="Part that has backups in --backups; repeatable."
)
@click.option("--airflow", metavar="URL", help="Airflow's API server.")
@click.option(
    "--database", metavar="DSN", help="Airflow's database, as a libpq connection string: dbname=airflow."
)
def metrics(
    host: str,
    port: int,
    disks: tuple[Path, ...],
    certificates: tuple[Path, ...],
    backups: Path | None,
    parts: tuple[str, ...],
    airflow: str | None,
    database: str | None,
) -> None:
    """Serve /metrics (OpenMetrics): disks, certificates, backups, Airflow, PostgreSQL.

    With FIRSTFLIGHT_OPTOUT=followed:FILE also whether the opt-out list is confirmed. All values are read
    again at most every ten seconds. Stop it with Ctrl-C or SIGTERM.
    """
    from cli.site.serving_metrics import serve
    from orchestration.site import machine_metrics

    machine = machine_metrics.MachineParts(disks, certificates, backups, parts, airflow, database)
    serve(host, port, partial(machine_metrics.metrics, machine))


@command.command(epilog="Example: firstflight site backup airflow --to /var/backups/firstflight")
@click.argument("part", type=click.Choice(["settings", "airflow", "store"]))
@click.option("--to", "folder", type=PATH, required=True, help="Folder of all backups.")
@click.option(
    "--keep", default=7, show_default=True, type=click.IntRange(1, 1000), help="Number of backups to keep."
)
@click.option("--path", "paths", type=PATH, multiple=True, help="settings: file or folder; repeatable.")
@click.option("--database", default="airflow", show_default=True, help="airflow: name of the database.")
@click.option("--store", "source", type=PATH, help="store: folder of the store; no program may have it open.")
def backup(
    part: str, folder: Path, keep: int, paths: tuple[Path, ...], database: str, source: Path | None
) -> None:
    """Back up a part of the site, restore the backup as a test, and remove old backups.

    If a backup cannot be restored, it is not added, and older ones stay. PostgreSQL's programs read PGHOST
    and PGUSER.
    """
    from firstflight.errors import UsageError
    from orchestration.site import backup as backups

    write: Callable[[Path], None]
    check: Callable[[Path], str]
    if part == "settings":
        if not paths:
            raise UsageError("name the settings with --path, for example --path /etc/firstflight")
        absolute = [path.absolute() for path in paths]
        write = partial(backups.write_settings, paths=absolute)
        check = partial(backups.check_settings, paths=absolute)
    elif part == "airflow":
        write = partial(backups.write_airflow, database=database)
        check = partial(backups.check_airflow, database=database)
    else:
        if source is None:
            raise UsageError("name the folder of the store with --store")
        write, check = partial(backups.write_store, source=source), backups.check_store
    terminal.echo(backups.make(folder.absolute(), part, write, check, keep))


@command.command(epilog="Example: firstflight site snapshot --store store --to store.snapshot")
@click.option(
    "--store", "source", type=PATH, required=True, help="Folder of a store that no program has open."
)
@click.option("--to", "target", type=PATH, required=True, help="Folder on the same disk, which is replaced.")
def snapshot(source: Path, target: Path) -> None:
    """Copy a stopped store within seconds. The store can then restart before `site backup store` runs.

    Columns are linked, because the engine never changes them; other files are copied.
    """
    from orchestration.site import backup as backups

    backups.snapshot(source.absolute(), target.absolute())
