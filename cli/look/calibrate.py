"""`firstflight calibrate`: compares the first answers of probes and of full handshakes."""

from __future__ import annotations

import sys

import click

from firstflight.errors import UsageError


@click.command(
    epilog="Example: firstflight calibrate --run 20261120T063905Z-a1b2c3\n\n"
    "Example: firstflight calibrate --run newest --part delays --format JSONEachRow"
)
@click.option("--run", "run", required=True, metavar="RUN", help="Run id, or `newest`.")
@click.option("--vantage", default="", metavar="V", help="Only pairs of this vantage point.")
@click.option(
    "--part",
    type=click.Choice(["agreement", "delays", "categories"]),
    help="One table of the answer; default: all in the default format, agreement in any other.",
)
@click.option(
    "--most-apart",
    default=600.0,
    show_default=True,
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Maximum time between the two sides of an interleaved pair.",
)
@click.option(
    "--format",
    "output_format",
    default="PrettyCompact",
    show_default=True,
    metavar="FORMAT",
    help="Any output format of ClickHouse: JSONEachRow, CSVWithNames, TSV, Parquet, Vertical, ...",
)
def command(run: str, vantage: str, part: str | None, most_apart: float, output_format: str) -> None:
    """Compare the first answers of probes and of full handshakes, per CDN; sends nothing.

    Compares the pairs that the stage calibrate measured. In a run without that stage, it compares the
    addresses that both probe and handshake contacted. docs/definitions.md (Agreement) defines the
    comparison.
    """
    import math

    from firstflight.system import interrupt, stdout, terminal
    from reports import calibration, chosen_run
    from store import confined_command as confined
    from store import open_store

    if not math.isfinite(most_apart):
        raise UsageError("--most-apart: a number of seconds expected")
    stdout.check_open()
    confined.confine_to_reading()
    for_people = output_format == "PrettyCompact"
    parts = [part] if part else list(calibration.PARTS) if for_people else ["agreement"]
    with interrupt.exit_on_sigint():
        content = b""
        with open_store() as store:
            choice = chosen_run.choose(store, run, chosen_run.PAIRS)
            run = choice.run
            if choice.sentence:
                terminal.echo(choice.sentence, err=True)
            for shown_part in parts:
                rows = calibration.rows(store, shown_part, run, vantage, most_apart)
                if for_people and shown_part == "agreement":
                    content += "".join(f"{line}\n" for line in calibration.notes(rows)).encode()
                answer = calibration.formatted(store, shown_part, rows, output_format)
                content += terminal.answer(*answer, terminal=sys.stdout.isatty())
    stdout.write(content)
