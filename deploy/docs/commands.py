"""The page of commands, from click and from the help of the native programs."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import click

from cli import main
from cli.shared.pass_through import NativeCommand
from firstflight.system import binaries

HEAD = """\
# Commands

Each section is the output of `firstflight COMMAND --help`. [Stable names](../interfaces.md) lists the exit
statuses, and the names that never change.
"""
# The longest lines that fit a page.
WIDTH = 100


def markdown() -> str:
    """Return the page: a part for each group of `firstflight --help`, a section for each command."""
    root = click.Context(main.root, info_name="firstflight")
    parts = [HEAD]
    for title, group in main.GROUPS.items():
        parts.append(f"## {title}\n")
        for name in group:
            command = main.root.get_command(root, name)
            assert command is not None
            parts += _sections(command, name, root)
    return "\n".join(parts)


def _sections(command: click.Command, name: str, parent: click.Context) -> Iterator[str]:
    """Yield a command's section, then the sections of the subcommands."""
    context = click.Context(command, info_name=name, parent=parent, max_content_width=WIDTH)
    context.terminal_width = WIDTH
    shown = _native(command.program) if isinstance(command, NativeCommand) else command.get_help(context)
    yield f"### {context.command_path}\n\n```text\n{shown.strip()}\n```\n"
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            subcommand = command.get_command(context, below)
            assert subcommand is not None
            yield from _sections(subcommand, below, context)


def _native(program: str) -> str:
    """Return a native program's help."""
    argv = [str(binaries.find(program)), "--help"]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout
