"""Commands that replace this process with a native program and pass all arguments on.

The program handles signals, standard streams, exit status and --help.
"""

from __future__ import annotations

import os
import sys

import click

from firstflight.system.binaries import find


def pass_through(program: str) -> click.Command:
    """Return the command that becomes `program`."""

    @click.command(
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    )
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    def command(arguments: tuple[str, ...]) -> None:
        path = find(program)
        sys.stdout.flush()
        sys.stderr.flush()
        os.execv(path, [program, *arguments])

    return command
