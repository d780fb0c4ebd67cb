"""`firstflight trace`: shows a row's packets."""

from __future__ import annotations

import click

from firstflight.system import stdout, terminal


@click.command(
    epilog="Example: firstflight trace 20261120T063905Z-a1b2c3 hamburg site-001.cloudflare.test 198.18.48.1"
)
@click.argument("run")
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
    run: str, vantage: str, domain: str, ip: str, repetition: int | None, slot: int | None, form: str
) -> None:
    """Show the captured packets of a row, with times since the Initial.

    RUN is an id, or `newest`. DOMAIN and IP are the columns of the row ("" for an empty DOMAIN). jsonl prints
    rows of quic_packet.
    """
    from cli.shared import run_name
    from reports import trace

    stdout.check_open()
    for traced in trace.trace(run_name.opened(run, "quic_probe"), vantage, domain, ip, repetition, slot):
        if form == "jsonl":
            for packet in traced.packets:
                terminal.echo(terminal.as_json({"repetition": traced.row["repetition"], **packet}))
        else:
            for line in trace.describe(traced):
                terminal.echo(line)
