"""`firstflight dissect`: executes the Rust dissector, which parses and documents its own options."""

from __future__ import annotations

import os
import sys

import click

from firstflight.system import binaries


@click.command(
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(arguments: tuple[str, ...]) -> None:
    """Turn captures into records."""
    program = str(binaries.find("firstflight-dissect"))
    # Replaces this process: signals, standard streams and exit status are the dissector's.
    sys.stdout.flush()
    os.execv(program, [program, *arguments])
