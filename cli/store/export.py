"""`firstflight export`: writes runs of the store into a folder that can be published."""

from __future__ import annotations

from pathlib import Path

import click

from cli.shared import options
from firstflight.errors import UsageError
from firstflight.system import terminal


@click.command(
    epilog="Example: firstflight export 20261120T063905Z-a1b2c3 --out data --licence CC-BY-4.0 "
    "--optout optout.txt"
)
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option(
    "--out",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="New or empty folder for the export.",
)
@click.option(
    "--licence",
    "--license",
    "licence",
    required=True,
    metavar="NAME",
    help="Licence of the data: an SPDX identifier such as CC-BY-4.0, or a URL.",
)
@click.option("--title", metavar="TEXT", help="Title of the data (default: the campaigns and the runs).")
@click.option("--author", "authors", multiple=True, metavar="NAME", help="Author to cite (repeatable).")
@click.option(
    "--optout",
    "optouts",
    multiple=True,
    type=options.InputPath(),
    metavar="FILE",
    help="Names and networks that opted out; the list in FIRSTFLIGHT_OPTOUT always counts (repeatable).",
)
@click.option(
    "--anonymise",
    is_flag=True,
    help="Replace names, certificates and addresses of clients by keyed hashes.",
)
@click.option(
    "--key-file",
    type=options.InputPath(),
    metavar="FILE",
    help="Key of the hashes, 64 hex digits; exports with the same key have equal hashes (default: random).",
)
def command(
    runs: tuple[str, ...],
    out: Path,
    licence: str,
    title: str | None,
    authors: tuple[str, ...],
    optouts: tuple[Path, ...],
    *,
    anonymise: bool,
    key_file: Path | None,
) -> None:
    """Write RUNs of the store to DIR: Parquet files, their description, settings, SQL and checksums.

    Rows that name a host or an address on an opt-out list are omitted. `firstflight load DIR` reads the
    folder back. The path of the folder is printed.
    """
    from firstflight.system import interrupt
    from store import confined_command as confined
    from store import open_store
    from store.export import opted_out, package
    from store.export.anonymous import Anonymiser, read_key

    if key_file is not None and not anonymise:
        raise UsageError("--key-file goes with --anonymise")
    if not licence.strip() or not licence.isprintable():
        raise UsageError("--licence is empty or has more than one line: give an SPDX identifier or a URL")
    package.check_out(out)
    lists = opted_out.list_files(optouts)
    opt_outs = opted_out.OptedOut(lists)
    anonymiser = Anonymiser(read_key(key_file)) if anonymise else None
    confined.confine_to_reading(added_to=[confined.nearest_folder(out)])
    with interrupt.exit_on_sigint(), open_store() as store:
        export = package.Export(store, out, opt_outs, len(lists), anonymiser)
        contents = export.write(list(dict.fromkeys(runs)), licence, title, authors)
    missing = sorted(export.lists_of_runs - {path.name for path in lists})
    if missing or not lists:
        state = f"the runs used {', '.join(missing)}" if missing else "no list is in force"
        terminal.echo(f"opt-outs: {state}: give --optout FILE for each opt-out list", err=True)
    removed = sum(file.removed for file in contents.files)
    terminal.echo(
        f"{len(contents.files)} files with {sum(file.rows for file in contents.files)} rows, "
        f"{removed} rows omitted",
        err=True,
    )
    terminal.echo(out)
