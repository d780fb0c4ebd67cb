"""The page of commands, from click and from the help of the native programs."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import click

from cli import main
from firstflight.system import binaries

HEAD = """\
# Commands

Each section is the output of `firstflight COMMAND --help`. [Stable names](../interfaces.md) lists the exit
statuses, and the names that never change.
"""
# The longest lines that fit a page.
WIDTH = 100
# Commands whose help a native program prints.
NATIVE = {
    "probe": "firstflight-prober",
    "handshake": "firstflight-handshake",
    "resolve": "firstflight-resolve",
    "tcp-options": "firstflight-tcp-options",
    "dissect": "firstflight-dissect",
}


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
    """Yield the section of a command, then those of its subcommands."""
    context = click.Context(command, info_name=name, parent=parent, max_content_width=WIDTH)
    context.terminal_width = WIDTH
    shown = _native(NATIVE[name]) if name in NATIVE else command.get_help(context)
    yield f"### {context.command_path}\n\n```text\n{shown.strip()}\n```\n"
    if isinstance(command, click.Group) and name not in NATIVE:
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            assert found is not None
            yield from _sections(found, below, context)


def _native(program: str) -> str:
    """Return the help of a native program."""
    asked = [str(binaries.find(program)), "--help"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout
