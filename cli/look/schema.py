"""`firstflight schema`: describes the columns of a record kind."""

from __future__ import annotations

import click

from firstflight.errors import UsageError
from firstflight.suggestion import did_you_mean
from firstflight.system import stdout, terminal
from schemas import records


@click.command(epilog="Example: firstflight schema quic_probe --format json")
@click.argument("kind", required=False)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["table", "json"]),
    default="table",
    help="Format of the output.",
)
def command(kind: str | None, output_format: str) -> None:
    """Print name, type, unit and meaning of the columns of a record KIND; without KIND, list the kinds."""
    stdout.check_open()
    try:
        kinds = [records.load(name) for name in ([kind] if kind else records.names())]
    except records.DescriptionError as error:
        raise UsageError(_unknown(kind) if kind and kind not in records.names() else str(error)) from error
    if output_format == "json":
        described = [{"kind": k.name, "meaning": k.meaning, "columns": k.describe()} for k in kinds]
        terminal.echo(terminal.as_json(described[0] if kind else described, indent=2))
    elif kind:
        _print_columns(kinds[0].describe())
    else:
        for record_kind in kinds:
            terminal.echo(f"{record_kind.name:18}{record_kind.meaning}")


def _unknown(kind: str) -> str:
    suggestion = did_you_mean(kind, records.names())
    return f"there is no record kind {kind!r}{suggestion or '; there are ' + ', '.join(records.names())}"


def _print_columns(columns: list[dict[str, object]]) -> None:
    width = max(len(str(column["name"])) for column in columns)
    for column in columns:
        unit = f" [{column['unit']}]" if column["unit"] else ""
        kind = f"{column['type']}{unit}{', null' if column['nullable'] else ''}"
        terminal.echo(f"{column['name']!s:{width}}  {kind:20}  {column['meaning']}")
