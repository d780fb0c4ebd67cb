"""`firstflight qlog-metrics`: prints the RTT estimates in qlog files of QUIC stacks."""

from __future__ import annotations

from pathlib import Path

import click

from firstflight.errors import InputError
from firstflight.system import stdout, terminal


@click.command(epilog="Example: firstflight qlog-metrics var/logs/*.sqlog")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path))
def command(files: tuple[Path, ...]) -> None:
    """Print the RTT estimates and probe timeouts of qlog files that QUIC stacks wrote, as JSON lines.

    Reads JSON and JSON-SEQ of qlog 0.3, 0.4 and later drafts. A damaged file does not stop the others: its
    rows before the fault are printed, and the exit status is 3.
    """
    from dissector.qlog import read

    stdout.check_open()
    damaged = []
    for path in files:
        try:
            for row in read.metrics(path):
                stdout.write(f"{terminal.as_json(row)}\n".encode())
        except InputError as error:
            damaged.append(str(error))
    if damaged:
        raise InputError("; ".join(damaged))
