"""`firstflight spool`: what a vantage point measured and has not yet loaded."""

from __future__ import annotations

import sys

import click

from firstflight.system import stdout, terminal


@click.group(epilog="Example: firstflight spool status")
def command() -> None:
    """See, load and clear what this vantage point keeps (docs/operations.md)."""


@command.command(epilog="Example: firstflight spool status")
def status() -> None:
    """List what was measured here, and whether it is in the store."""
    from orchestration.site import pending_uploads

    stdout.check_open()
    for part in pending_uploads.uploads():
        state = "loaded" if part.loaded else "waits" + (f": {part.message}" if part.message else "")
        terminal.echo(f"{part.run.id}  {part.key.vantage}  {part.key.repetition}  {state}")


@command.command(epilog="Example: FIRSTFLIGHT_STORE_FILE=/etc/firstflight/store firstflight spool load")
def load() -> None:
    """Load what waits into the store; what is there already stays as it is."""
    from firstflight.run.run import runs_root
    from orchestration.site import pending_uploads
    from store import confined_command as confined
    from store.load import reached

    runs = {part.run.path: part.run for part in pending_uploads.uploads()}
    stores = {run.settings.store.url for run in runs.values()}
    if len(stores) == 1:  # which is so unless somebody changed the settings of the schedule
        read = [path for folder in runs for path in reached.paths(folder)]
        confined.changing(stores.pop(), readable=read, writable=[runs_root()])
    loaded, faults = pending_uploads.load_pending()
    terminal.echo(f"{loaded} parts loaded, {len(faults)} faults", err=True)
    if faults:
        raise faults[0]


@command.command(epilog="Example: firstflight spool clean --keep-days 90")
@click.option("--keep-days", type=click.FloatRange(min=0, max=36_500), required=True, metavar="N")
def clean(keep_days: float) -> None:
    """Remove runs that are wholly loaded and older than N days, with their captures and inputs.

    At the centre: runs of the schedule that have ended, and lists and tables but the newest.
    """
    from orchestration.site import pending_uploads

    removed = pending_uploads.clean(keep_days)
    for run in removed:
        terminal.echo(run)
    terminal.echo(f"{len(removed)} runs removed", err=True)
    sys.exit(0)
