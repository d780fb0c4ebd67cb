"""`firstflight sql`: runs one query on the store."""

from __future__ import annotations

import sys

import click

from cli import options
from firstflight.errors import InputError, UsageError


@click.command(
    epilog='Example: firstflight sql "SELECT cdn, median(ack_to_sh_us) FROM quic_probe GROUP BY cdn" '
    "--format JSONEachRow"
)
@click.argument("query")
@options.output_format
def command(query: str, output_format: str) -> None:
    """Run QUERY (ClickHouse SQL) on the store and print the result; read-only.

    `SELECT *` includes computed columns such as ack_to_sh_us. `-` reads the query from standard input.
    """
    from firstflight.system import interrupt, stdout, terminal
    from store import ask
    from store import confined_command as confined

    stdout.check_open()
    text = _from_stdin() if query == "-" else query
    confined.asking()
    with interrupt.exit_on_sigint():
        answer = ask.formatted(text, output_format)
    stdout.write(terminal.answer(*answer, terminal=sys.stdout.isatty()))


def _from_stdin() -> str:
    if sys.stdin is None:
        raise UsageError("standard input is closed: give the query there, or as an argument")
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise InputError(
            f"standard input is not UTF-8 at byte {error.start}: give the query as UTF-8 text"
        ) from error
