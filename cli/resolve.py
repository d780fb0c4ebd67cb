"""`firstflight resolve`: executes the native engine with all arguments, in place of this process."""

from __future__ import annotations

import os
import sys

import click

from firstflight.system.binaries import find

PROGRAM = "firstflight-resolve"


@click.command(
    short_help="Resolve names to addresses and HTTPS records.",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(arguments: tuple[str, ...]) -> None:
    """Resolve names: `firstflight resolve --help` lists the options.

    Example: firstflight resolve --names names.txt --resolver 192.0.2.53 > answers.jsonl
    """
    program = find(PROGRAM)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(program, [PROGRAM, *arguments])
