"""`firstflight sql`: one question to the store."""

from __future__ import annotations

import os
import sys

import click

from firstflight.errors import FirstflightError


@click.command(
    epilog='Example: firstflight sql "SELECT cdn, median(ack_to_sh_us) FROM quic_probe GROUP BY cdn" '
    "--format JSONEachRow"
)
@click.argument("query")
@click.option(
    "--format",
    "output_format",
    default="PrettyCompact",
    show_default=True,
    metavar="FORMAT",
    help="Any output format of ClickHouse: JSONEachRow, CSVWithNames, TSV, Parquet, Vertical, ...",
)
def command(query: str, output_format: str) -> None:
    """Ask the store QUERY (ClickHouse's SQL) and print the answer; nothing can be changed.

    `SELECT *` shows computed columns such as ack_to_sh_us too. `-` reads the query from standard input.
    """
    from firstflight.store import ask

    _print(ask.formatted(sys.stdin.read() if query == "-" else query, output_format))


def _print(answer: bytes) -> None:
    """Write the answer, which may be binary, past Python's buffers (they fail again at the end)."""
    left = memoryview(answer)
    while left:
        try:
            left = left[os.write(sys.stdout.fileno(), left) :]
        except BrokenPipeError:
            return  # the reader has seen enough
        except OSError as error:
            raise FirstflightError(f"cannot write the answer: {error.strerror}") from error
