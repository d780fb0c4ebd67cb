"""`firstflight load`: loads record files into the store."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from firstflight.errors import FirstflightError, InputError
from firstflight.system import terminal

if TYPE_CHECKING:
    from firstflight.run.run import Run


@click.command(
    epilog="Example: firstflight load 20261120T063905Z-a1b2c3\n\nExample: firstflight load quic_probe.parquet"
)
@click.argument("what", nargs=-1, required=True, metavar="RUN|FILE|DIR...")
@click.option("--replace", is_flag=True, help="Also replace rows that were loaded from another location.")
def command(what: tuple[str, ...], *, replace: bool) -> None:
    """Load runs (all their record files), single record files (Parquet) or exports into the store.

    DIR is a folder written by `firstflight export`. If a checksum differs, the folder is not loaded.

    Loading is idempotent: a file that was written again replaces its rows. A file from another location never
    replaces rows without --replace, whichever run it names. Files that are unreadable, invalid or rejected
    are reported and skipped; the others are loaded (exit 1 or 3).
    """
    from firstflight.run.run import Run
    from store import confined_command as confined
    from store.export import package
    from store.load import reached

    what = tuple(dict.fromkeys(what))
    files = [Path(name) for name in what if Path(name).is_file()]
    missing = [name for name in what if name.endswith(".parquet") and not Path(name).is_file()]
    if missing:
        raise InputError(f"there is no file {missing[0]}")
    exported = {name: package.runs_in(Path(name)) for name in what if package.is_export(Path(name))}
    runs = [run for folder_runs in exported.values() for run in folder_runs]
    runs += [Run.open(name) for name in what if name not in exported and not Path(name).is_file()]
    given = [*files, *(run.path for run in runs)]
    run_paths = [run.path for run in runs if _is_own(run)]
    confined.confine_to_writing(
        readable=[path for argument in given for path in reached.paths(argument)],
        writable=run_paths,
    )
    from store.load import loader  # imported after confinement: Arrow may start threads

    results: list[loader.Result] = []

    def on_result(result: loader.Result) -> None:
        results.append(result)
        _report(result)

    for run in runs:
        if run.path not in run_paths:
            loader.load_run_folder(run, on_result=on_result, replace=replace)
            continue
        try:
            # This also writes a report, so that no part of the run remains pending.
            loader.stage(run, on_result=on_result, replace=replace)
        except FirstflightError as error:
            if not any(
                isinstance(result, loader.RefusedFile) and result.error is error for result in results
            ):
                raise
    if files:
        loader.load_files(files, on_result=on_result, replace=replace)
    _print_totals(results)


def _is_own(run: Run) -> bool:
    """Return whether the store is the one in the run's settings, and the run's folder is writable."""
    from store.export import package
    from store.location import find

    if package.is_export(run.path.parent.parent):  # an export never changes
        return False
    return find() == find(run.settings.store.url) and os.access(run.path, os.W_OK)


def _report(result: object) -> None:
    from store.load.loader import Loaded, RefusedFile

    if isinstance(result, RefusedFile):
        terminal.echo(f"refused: {result.error}", err=True)
    elif isinstance(result, Loaded):
        terminal.echo(f"{result.action}: {result.path} ({result.in_file} rows of {result.kind})", err=True)


def _print_totals(results: Sequence[object]) -> None:
    """Print the totals; exit with 1 or 3 if a file was refused (interfaces.md)."""
    from store.load.loader import Loaded, RefusedFile
    from store.load.record_file import Contradiction

    loaded = [result for result in results if isinstance(result, Loaded)]
    refused = [result for result in results if isinstance(result, RefusedFile)]
    count = dict.fromkeys(("loaded", "replaced", "unchanged"), 0)
    for result in loaded:
        count[result.action] += 1
    terminal.echo(
        f"{len(results)} files: {', '.join(f'{n} {action}' for action, n in count.items())}, "
        f"{len(refused)} refused; {sum(r.in_file for r in loaded)} rows in the files loaded, "
        f"{sum(r.in_store for r in loaded)} of them in the store"
    )
    if refused:
        errors = [result.error for result in refused]
        unreadable = any(isinstance(e, InputError) and not isinstance(e, Contradiction) for e in errors)
        sys.exit(3 if unreadable else 1)
