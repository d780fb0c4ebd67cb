"""`firstflight uploads`: lists, loads and removes a vantage point's pending uploads."""

from __future__ import annotations

from collections.abc import Sequence

import click

from firstflight.errors import FirstflightError
from firstflight.system import stdout, terminal


@click.group(epilog="Example: firstflight uploads status")
def command() -> None:
    """List, load and remove this vantage point's pending uploads (docs/how-to/load-pending-uploads.md)."""


@command.command(epilog="Example: firstflight uploads status")
def status() -> None:
    """List the parts measured on this machine, and whether each is in the store."""
    from orchestration.site import pending_uploads

    stdout.check_open()
    broken: list[pending_uploads.BrokenRun] = []
    for part in pending_uploads.uploads(broken):
        state = "loaded" if part.loaded else "waits" + (f": {part.message}" if part.message else "")
        shard = part.key.of_shard("  shard ")
        terminal.echo(f"{part.run.id}  {part.key.vantage}  {part.key.repetition}{shard}  {state}")
    _refuse(broken)


@command.command(epilog="Example: FIRSTFLIGHT_STORE_FILE=/etc/firstflight/store firstflight uploads load")
def load() -> None:
    """Load all pending uploads into the store; existing rows do not change."""
    from firstflight.run.run import runs_root
    from orchestration.site import pending_uploads
    from store import confined_command as confined
    from store.load import reached

    runs = {part.run.path: part.run for part in pending_uploads.uploads([])}  # broken ones are named below
    stores = {run.settings.store.url for run in runs.values()}
    if len(stores) == 1:  # always, unless the settings of the schedule were changed
        read = [path for folder in runs for path in reached.paths(folder)]
        confined.confine_to_writing(stores.pop(), readable=read, writable=[runs_root()])
    loaded, faults = pending_uploads.load_pending()
    terminal.echo(f"{loaded} parts loaded, {len(faults)} faults", err=True)
    if faults:
        raise faults[0]


@command.command(epilog="Example: firstflight uploads clean --keep-days 90")
@click.option(
    "--keep-days",
    type=click.FloatRange(min=0, max=36_500),
    required=True,
    metavar="N",
    help="Keep runs of the last N days.",
)
@click.option(
    "--keep-captures-days",
    type=click.FloatRange(min=0, max=36_500),
    metavar="M",
    help="Keep captures for M days [default: as long as the run].",
)
def clean(keep_days: float, keep_captures_days: float | None) -> None:
    """Remove runs that are completely loaded and older than N days, including captures and inputs.

    With M, also remove captures of loaded parts older than M days, but not the record files. `trace` then has
    no packets for these rows. At the centre, this removes finished scheduled runs, and all lists and tables
    except the newest.
    """
    from orchestration.site import pending_uploads

    broken: list[pending_uploads.BrokenRun] = []
    removed = pending_uploads.clean(keep_days, broken)
    for run in removed:
        terminal.echo(run)
    terminal.echo(f"{len(removed)} runs removed", err=True)
    if keep_captures_days is not None:
        count, size = pending_uploads.remove_captures(keep_captures_days)
        terminal.echo(f"{count} captures and key logs removed, {size} bytes", err=True)
    _refuse(broken)


def _refuse(broken: Sequence[FirstflightError]) -> None:
    """Print the errors of skipped runs; raise the first one."""
    for error in broken[1:]:
        terminal.echo(str(error), err=True)
    if broken:
        raise broken[0]


@command.command(epilog="Example: firstflight uploads metrics --port 9101")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", default=9101, show_default=True, type=click.IntRange(0, 65535), help="Port; 0: any free port."
)
def metrics(host: str, port: int) -> None:
    """Serve /metrics (OpenMetrics): measured and pending parts, rates, losses, clock offset.

    Reads the folder of runs at most every ten seconds. Stop it with Ctrl-C or SIGTERM.
    """
    from cli.site.serving_metrics import serve
    from orchestration.site.metrics import metrics as collect

    serve(host, port, collect)
