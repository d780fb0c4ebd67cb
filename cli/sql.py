"""`firstflight sql`: one question to the store."""

from __future__ import annotations

import sys

import click

from cli import options


@click.command(
    epilog='Example: firstflight sql "SELECT cdn, median(ack_to_sh_us) FROM quic_probe GROUP BY cdn" '
    "--format JSONEachRow"
)
@click.argument("query")
@options.output_format
def command(query: str, output_format: str) -> None:
    """Ask the store QUERY (ClickHouse's SQL) and print the answer; nothing can be changed.

    `SELECT *` shows computed columns such as ack_to_sh_us too. `-` reads the query from standard input.
    """
    from firstflight import stdout
    from firstflight.store import ask

    stdout.write(ask.formatted(sys.stdin.read() if query == "-" else query, output_format))
