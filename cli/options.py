"""Options shared by several commands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from firstflight.errors import InputError

_Command = TypeVar("_Command", bound=Callable[..., Any])

output_format = click.option(
    "--format",
    "output_format",
    default="PrettyCompact",
    show_default=True,
    metavar="FORMAT",
    help="Any output format of ClickHouse: JSONEachRow, CSVWithNames, TSV, Parquet, Vertical, ...",
)


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
