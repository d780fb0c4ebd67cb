"""`firstflight calibrate`: compares first answers of probes with those inside full handshakes."""

from __future__ import annotations

import sys

import click

from cli import options
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
    help="Interleaved pairs that were sent further apart are not compared.",
)
@options.output_format
def command(run: str, vantage: str, part: str | None, most_apart: float, output_format: str) -> None:
    """Compare the first answers of probes with those inside full handshakes, per CDN; sends nothing.

    Compares the pairs that the stage calibrate measured. In a run without that stage, it compares the
    addresses that both probe and handshake contacted. docs/definitions.md (Agreement) defines the
    comparison.
    """
    import math

    from firstflight.system import interrupt, stdout, terminal
    from reports import calibration
    from store import confined_command as confined
    from store import open_store

    if not math.isfinite(most_apart):
        raise UsageError("--most-apart: a number of seconds expected")
    stdout.check_open()
    confined.asking()
    for_people = output_format == "PrettyCompact"
    parts = [part] if part else list(calibration.PARTS) if for_people else ["agreement"]
    with interrupt.exit_on_sigint():
        content = b""
        with open_store() as store:
            for one in parts:
                found = calibration.rows(store, one, run, vantage, most_apart)
                if for_people and one == "agreement":
                    content += "".join(f"{line}\n" for line in calibration.notes(found)).encode()
                answer = calibration.formatted(store, one, found, output_format)
                content += terminal.answer(*answer, terminal=sys.stdout.isatty())
    stdout.write(content)
