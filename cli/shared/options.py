"""Options shared by several commands."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from cli.shared import table
from firstflight.errors import InputError
from firstflight.system import stdout, terminal
from store.base import FormattedAnswer

_Command = TypeVar("_Command", bound=Callable[..., Any])

TSV = "TSV"

output_format = click.option(
    "--format",
    "output_format",
    metavar="FORMAT",
    help="Any output format of ClickHouse: JSONEachRow, CSVWithNames, TSVWithNames, Parquet, Vertical, ... "
    "[default: a table that fits the terminal; TSV if the output is no terminal]",
)

wide = click.option(
    "--wide", is_flag=True, help="On a terminal: every column, also empty ones, and one line per row."
)


def asked_format(given: str | None) -> str:
    """Return the format to ask the store for; `given` is the option's value."""
    if given is not None:
        return given
    return table.FORMAT if sys.stdout.isatty() else TSV


def write(answer: FormattedAnswer, *, given: str | None, wide: bool) -> None:
    """Write an answer in the format `asked_format(given)`, or in the format of a FORMAT clause."""
    content, found = answer
    if given is not None or found != table.FORMAT:
        stdout.write(terminal.answer(content, found, terminal=sys.stdout.isatty()))
        return
    text, hidden = table.table_text(content, wide=wide)
    stdout.write(text.encode())
    if hidden:
        columns = "1 column" if len(hidden) == 1 else f"{len(hidden)} columns"
        terminal.echo(f"{columns} without values: {', '.join(hidden)} (--wide shows all)", err=True)


class InputPath(click.Path):
    """The path of an input; a missing one is unreadable input (exit 3), not wrong use."""

    def __init__(self, *, folder: bool = False) -> None:
        super().__init__(file_okay=not folder, dir_okay=folder, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the Path; InputError if it does not exist."""
        if not Path(value).exists():
            raise InputError(
                f"cannot read {value}: there is no such {'file' if self.file_okay else 'folder'}"
            )
        return super().convert(value, param, ctx)


def egress(command: _Command) -> _Command:
    """Add the lists in force to a command that sends: parameters `blocklists`, `optouts` and `allow`."""
    for option in (
        click.option(
            "--allow-net",
            "allow",
            multiple=True,
            metavar="CIDR",
            help="Private or lab network that may be contacted without --contact (repeatable).",
        ),
        click.option(
            "--optout",
            "optouts",
            multiple=True,
            type=InputPath(),
            metavar="FILE",
            help="Names and networks that opted out (repeatable).",
        ),
        click.option(
            "--blocklist",
            "blocklists",
            multiple=True,
            type=InputPath(),
            metavar="FILE",
            help="Addresses never to contact (repeatable).",
        ),
    ):
        command = option(command)
    return command
