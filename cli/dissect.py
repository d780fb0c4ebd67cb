"""`firstflight dissect`: hands over to the native dissector, whose options are documented here."""

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
    # It takes this process's place: signals, standard streams and exit status are its own.
    sys.stdout.flush()
    os.execv(program, [program, *arguments])
