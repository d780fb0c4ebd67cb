"""`firstflight handshake`: the native engine that completes handshakes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from firstflight.cdn import rules
from firstflight.errors import UsageError
from firstflight.system.binaries import find

_PROGRAM = "firstflight-handshake"
_OPTION = "--cdn-rules"


@click.command(
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(arguments: tuple[str, ...]) -> None:
    """Become the engine; it gets the CDN rules as JSON, checked, in a file without a name."""
    path = find(_PROGRAM)
    file, others = _rules_of(arguments)
    descriptor = os.memfd_create("cdn-rules", 0)  # the engine inherits it
    with os.fdopen(os.dup(descriptor), "w", encoding="utf-8") as out:
        out.write(rules.as_json(rules.load(file)))
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(path, [_PROGRAM, f"{_OPTION}=/proc/self/fd/{descriptor}", *others])


def _rules_of(arguments: tuple[str, ...]) -> tuple[Path | None, list[str]]:
    """Return the file of --cdn-rules, if it is given, and the other arguments."""
    file: Path | None = None
    others: list[str] = []
    left = iter(arguments)
    for argument in left:
        name, equals, value = argument.partition("=")
        if name != _OPTION:
            others.append(argument)
            continue
        value = value if equals else next(left, "")
        if not value or file is not None:
            raise UsageError(f"{_OPTION} needs the name of one file, once")
        file = Path(value)
    return file, others
