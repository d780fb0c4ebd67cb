"""`firstflight qlog`: converts captures to qlog files."""

from __future__ import annotations

from pathlib import Path

import click

from firstflight.errors import InputError
from firstflight.system import stdout, terminal


@click.command(epilog="Example: firstflight qlog download/quiche.pcap --out logs")
@click.argument("captures", nargs=-1, required=True, metavar="CAPTURE...", type=click.Path(path_type=Path))
@click.option(
    "--keys",
    multiple=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="TLS key log (repeatable); NAME.keys next to NAME.pcap is used automatically.",
)
@click.option(
    "--out", required=True, metavar="DIR", type=click.Path(path_type=Path), help="Folder for the files."
)
def command(captures: tuple[Path, ...], keys: tuple[Path, ...], out: Path) -> None:
    """Write each QUIC connection in captures as a qlog file, for example for qvis, and print the path.

    The file name has the connection's original destination connection ID and the side that captured it.
    Without keys, the file has Initials in full and only headers of other packets.
    """
    from dissector.qlog import write

    stdout.check_open()
    written, damaged = write.write(captures, keys, out)
    for path in written:
        terminal.echo(str(path))
    if damaged:
        raise InputError("; ".join(damaged))
