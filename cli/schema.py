"""`firstflight schema`: what the columns of a record kind are."""

from __future__ import annotations

import json

import click

from firstflight.errors import UsageError


@click.command(epilog="Example: firstflight schema quic_probe --format json")
@click.argument("kind", required=False)
@click.option("--format", "output_format", type=click.Choice(["table", "json"]), default="table")
def command(kind: str | None, output_format: str) -> None:
    """Print name, type, unit and meaning of the columns of a record KIND; without KIND, list the kinds."""
    from schemas import records

    try:
        kinds = [records.load(name) for name in ([kind] if kind else records.names())]
    except records.DescriptionError as error:
        raise UsageError(str(error)) from error
    if output_format == "json":
        described = [{"kind": k.name, "meaning": k.meaning, "columns": k.describe()} for k in kinds]
        click.echo(json.dumps(described[0] if kind else described, indent=2, ensure_ascii=False))
    elif kind:
        _print_columns(kinds[0].describe())
    else:
        for one in kinds:
            click.echo(f"{one.name:18}{one.meaning}")


def _print_columns(columns: list[dict[str, object]]) -> None:
    width = max(len(str(column["name"])) for column in columns)
    for column in columns:
        unit = f" [{column['unit']}]" if column["unit"] else ""
        kind = f"{column['type']}{unit}{', null' if column['nullable'] else ''}"
        click.echo(f"{column['name']!s:{width}}  {kind:20}  {column['meaning']}")
