"""Commands that replace this process with a native program and pass all arguments on.

The program handles signals, standard streams, exit status and --help.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

from firstflight.system.binaries import find


class NativeCommand(click.Command):
    """A command that passes all arguments, including --help, to the native program `program`."""

    def __init__(self, name: str | None = None, *, program: str, **options: Any) -> None:
        passed_on = {"ignore_unknown_options": True, "allow_interspersed_args": False}
        super().__init__(name, add_help_option=False, context_settings=passed_on, **options)
        self.program = program


def pass_through(program: str) -> NativeCommand:
    """Return the command that becomes `program`."""

    @click.command(cls=NativeCommand, program=program)
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    def command(arguments: tuple[str, ...]) -> None:
        become(find(program), program, arguments)

    return command


def become(path: Path, program: str, arguments: Sequence[str]) -> NoReturn:
    """Replace this process with the program in the file `path`, which gets the name `program`."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(path, [program, *arguments])
