"""`firstflight import`: imports the output of other scanners into the store."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from firstflight.errors import InputError, UsageError
from firstflight.settings.types import HOST_NAME
from firstflight.system import files, stdout, terminal

# Maximum number of rejected lines to print.
_SHOWN = 20


@click.group(epilog="Example: firstflight import qscanner ./qscanner-output")
def command() -> None:
    """Import the output of other scanners into the store."""


@command.command(epilog="Example: firstflight import qscanner ./qscanner-output --vantage hamburg")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--vantage", default="qscanner", show_default=True, metavar="NAME", help="Vantage point of the rows."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder for the record files [imports/RUN, in the parent of the folder of runs].",
)
@click.option(
    "--cdn-rules",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Rules that identify a CDN by headers and certificates [built-in rules].",
)
@click.option("--replace", is_flag=True, help="Also replace rows that were loaded from another location.")
def qscanner(folder: Path, vantage: str, out: Path | None, cdn_rules: Path | None, *, replace: bool) -> None:
    """Write QScanner's results as record files of completed handshakes, and load them.

    DIR has quic_connection_info.csv and the other files of a QScanner run. The last line of the output is the
    id of the imported run. The id depends on start time and content, so a second import changes nothing; with
    another --out it needs --replace. Rejected lines are reported with their numbers (exit 1).
    """
    from firstflight.cdn import methods, rules
    from firstflight.run.provenance import ruleset_hash, tool_version
    from firstflight.run.run import runs_root
    from scanner import imports
    from scanner.imports.qscanner import QScanner
    from store import confined_command as confined

    if not HOST_NAME.fullmatch(vantage):
        raise UsageError(f"--vantage {vantage}: use lower-case letters, digits and _")
    stdout.check_open()
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}")
    version = tool_version()
    in_force = cdn_rules or rules.DEFAULT
    source = QScanner(folder.resolve(), methods.Methods.read(in_force))
    ruleset = ruleset_hash([in_force])
    run = source.run_id()
    out = (out or runs_root().parent / "imports" / run).resolve()
    with files.explain_os_errors(out):
        out.mkdir(parents=True, exist_ok=True)
    code = [Path(folder) for folder in imports.__path__]
    confined.confine_to_writing(readable=[source.folder, *code], writable=[out])
    # Imported after confinement: Arrow may start threads.
    from scanner.imports import write
    from store.load import loader

    stamp = {
        "run": run,
        "vantage": vantage,
        "repetition": 1,
        "tool_version": f"QScanner, imported by {version}",
        "ruleset": ruleset,
    }
    counts = write.write(source.targets(out), out, stamp)
    for line, reason in source.rejected[:_SHOWN]:
        terminal.echo(f"line {line} rejected: {reason}", err=True)
    if source.rejected:
        terminal.echo(f"{len(source.rejected)} lines rejected", err=True)
    results = loader.load_files([out / f"{kind}.parquet" for kind in write.KINDS], replace=replace)
    for result in results:
        if isinstance(result, loader.RefusedFile):
            raise result.error
        terminal.echo(f"{result.action}: {result.path} ({result.in_file} rows of {result.kind})", err=True)
    outcomes = ", ".join(f"{count} {name}" for name, count in counts["outcomes"].items())
    terminal.echo(f"{counts['quic_handshake']} handshakes ({outcomes or 'none'})", err=True)
    terminal.echo(run)
    if source.rejected:
        sys.exit(1)
