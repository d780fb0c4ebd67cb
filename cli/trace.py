"""`firstflight trace`: shows the packets of a row."""

from __future__ import annotations

import click

from firstflight.system import stdout, terminal


@click.command(
    epilog="Example: firstflight trace 20261120T063905Z-a1b2c3 hamburg site-001.cloudflare.test 198.18.48.1"
)
@click.argument("run_name", metavar="RUN")
@click.argument("vantage")
@click.argument("domain")
@click.argument("ip")
@click.option(
    "--repetition", type=click.IntRange(min=1), metavar="N", help="Only this repetition [default: all]."
)
@click.option("--slot", type=click.IntRange(min=0), metavar="N", help="Only this slot of a watch.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "jsonl"]),
    default="text",
    show_default=True,
    help="Format of the output.",
)
def command(
    run_name: str, vantage: str, domain: str, ip: str, repetition: int | None, slot: int | None, form: str
) -> None:
    """Show the captured packets of a row, with times since the Initial.

    DOMAIN and IP are the row's columns ("" for an empty DOMAIN). jsonl prints the rows of quic_packet.
    """
    from firstflight.run.run import Run
    from reports import trace

    stdout.check_open()
    for found in trace.trace(Run.open(run_name), vantage, domain, ip, repetition, slot):
        if form == "jsonl":
            for packet in found.packets:
                terminal.echo(terminal.as_json({"repetition": found.row["repetition"], **packet}))
        else:
            for line in trace.describe(found):
                terminal.echo(line)
