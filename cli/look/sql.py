"""`firstflight sql`: runs a query on the store, or reads queries from a prompt."""

from __future__ import annotations

import sys

import click

from cli.shared import options
from firstflight.errors import InputError, UsageError


@click.command(
    epilog='Example: firstflight sql "SELECT cdn, median(delay_us) FROM table1_probe GROUP BY cdn"\n\n'
    'Example: firstflight sql "SELECT * FROM table1" --format JSONEachRow\n\n'
    "Example: firstflight sql"
)
@click.argument("query", required=False)
@options.output_format
@options.wide
def command(query: str | None, output_format: str | None, wide: bool) -> None:
    """Run QUERY (ClickHouse SQL) on the store and print the result; read-only.

    `SELECT *` includes computed columns such as ack_to_sh_us. `-` reads the query from standard input.
    Without QUERY, a terminal shows a prompt with history.
    """
    from firstflight.system import interrupt, stdout
    from store import ask
    from store import confined_command as confined

    stdout.check_open()

    def answer(text: str) -> None:
        with interrupt.exit_on_sigint():
            formatted = ask.formatted(text, options.asked_format(output_format))
        options.write(formatted, given=output_format, wide=wide)

    if query is not None:
        text = _from_stdin() if query == "-" else query
        confined.confine_to_reading()
        answer(text)
    elif sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty():
        from cli.look import sql_prompt

        with sql_prompt.history() as file:
            confined.confine_to_reading()
            sql_prompt.run(answer, file)
    else:
        raise UsageError(
            "give a query, or `-` to read it from standard input; only a terminal shows a prompt without one"
        )


def _from_stdin() -> str:
    if sys.stdin is None:
        raise UsageError("standard input is closed: give the query there, or as an argument")
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise InputError(
            f"standard input is not UTF-8 at byte {error.start}: give the query as UTF-8 text"
        ) from error
