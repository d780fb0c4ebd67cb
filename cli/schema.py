"""`firstflight schema`: describes the columns of a record kind."""

from __future__ import annotations

import click

from firstflight.errors import UsageError
from firstflight.system import stdout, terminal


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
    from schemas import records

    stdout.check_open()
    try:
        kinds = [records.load(name) for name in ([kind] if kind else records.names())]
    except records.DescriptionError as error:
        raise UsageError(str(error)) from error
    if output_format == "json":
        described = [{"kind": k.name, "meaning": k.meaning, "columns": k.describe()} for k in kinds]
        terminal.echo(terminal.as_json(described[0] if kind else described, indent=2))
    elif kind:
        _print_columns(kinds[0].describe())
    else:
        for one in kinds:
            terminal.echo(f"{one.name:18}{one.meaning}")


def _print_columns(columns: list[dict[str, object]]) -> None:
    width = max(len(str(column["name"])) for column in columns)
    for column in columns:
        unit = f" [{column['unit']}]" if column["unit"] else ""
        kind = f"{column['type']}{unit}{', null' if column['nullable'] else ''}"
        terminal.echo(f"{column['name']!s:{width}}  {kind:20}  {column['meaning']}")
