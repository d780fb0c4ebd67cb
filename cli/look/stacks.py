"""`firstflight stacks`: derives an entry of the table of known stacks from handshakes."""

from __future__ import annotations

from pathlib import Path

import click

from cli.shared import options
from firstflight.errors import UsageError
from firstflight.system import stdout, terminal


@click.command(
    epilog="Example: firstflight stacks --stack picoquic --stack-version 1.1.53 handshakes.jsonl",
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=options.InputPath())
@click.option("--stack", required=True, metavar="NAME", help="Stack of the servers.")
@click.option("--stack-version", required=True, metavar="VERSION", help="Version of the stack.")
@click.option(
    "--domain",
    "domains",
    multiple=True,
    metavar="NAME",
    help="Only handshakes with this name (repeatable; default: all).",
)
def command(files: tuple[Path, ...], stack: str, stack_version: str, domains: tuple[str, ...]) -> None:
    """Print an entry for the table of known QUIC stacks, from handshakes with servers of a single stack.

    FILE: a record file quic_handshake.parquet, or the output of `firstflight handshake --format jsonl`. The
    entry marks a parameter as optional if some handshakes lack it, and omits values that differ between
    handshakes. Therefore give handshakes with servers that have different settings.
    """
    from scanner.handshake import fingerprints

    stdout.check_open()
    found = set().union(*(fingerprints.read(path, domains) for path in files))
    if not found:
        names = f" with {', '.join(domains)}" if domains else ""
        raise UsageError(
            f"no completed handshake{names} in {', '.join(map(str, files))} has transport parameters: "
            "give files with such handshakes"
        )
    terminal.echo(terminal.as_json(fingerprints.entry(stack, stack_version, found)))
