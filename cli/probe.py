"""`firstflight probe`: executes the Rust prober with all arguments, in place of this process."""

from __future__ import annotations

import os
import sys

import click

from firstflight.system.binaries import find

PROGRAM = "firstflight-prober"


@click.command(
    short_help="Probe the first flight of QUIC servers.",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(arguments: tuple[str, ...]) -> None:
    """Probe how QUIC servers answer the first flight: `firstflight probe --help` lists the options.

    Example: firstflight probe --targets targets.csv --contact 'research@example.org' > probes.jsonl
    """
    program = find(PROGRAM)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(program, [PROGRAM, *arguments])
