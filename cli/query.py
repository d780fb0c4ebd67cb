"""`firstflight query`: runs a named query."""

from __future__ import annotations

import sys

import click

from cli import options
from firstflight.errors import UsageError
from firstflight.system import terminal


@click.command(
    epilog="Example: firstflight query\n\n"
    "Example: firstflight query changed_behaviour --param since=2026-11-01 --format CSVWithNames"
)
@click.argument("name", required=False)
@click.option(
    "--param",
    "given",
    multiple=True,
    metavar="KEY=VALUE",
    help="Parameter of the query (repeatable).",
)
@options.output_format
@click.option("--about", is_flag=True, help="Describe the query's parameters and columns; do not run it.")
@click.option("--sql", "show_sql", is_flag=True, help="Print the SQL with its parameters; do not run it.")
def command(
    name: str | None, given: tuple[str, ...], output_format: str, about: bool, show_sql: bool
) -> None:
    """Run the named query NAME on the store and print the result; without NAME, list the queries.

    docs/queries.md describes all queries.
    """
    from firstflight.system import interrupt, stdout
    from reports import query
    from schemas.sql import Dialect
    from store import DATABASE
    from store import confined_command as confined

    stdout.check_open()
    if name is None:
        if given:
            raise UsageError("--param goes with the NAME of a query; `firstflight query` lists them")
        for one in query.names():
            terminal.echo(f"{one:26} {query.load(one).answers}")
        return
    asked = query.load(name)
    parameters = _pairs(given)
    if about:
        terminal.echo(_about(asked))
    elif show_sql:
        terminal.echo(asked.rendered(parameters, Dialect(DATABASE)))
    else:
        confined.asking()
        with interrupt.exit_on_sigint():
            answer = query.formatted(name, parameters, output_format)
        stdout.write(terminal.answer(*answer, terminal=sys.stdout.isatty()))


def _pairs(given: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in given:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise UsageError(f"--param {pair}: write it as KEY=VALUE, for example --param since=2026-11-01")
        if key in found:
            raise UsageError(f"--param {key} is given twice")
        found[key] = value
    return found


def _about(asked: object) -> str:
    from reports.query import NamedQuery

    assert isinstance(asked, NamedQuery)
    lines = [asked.answers, "", "Parameters:"]
    for one in asked.parameters:
        default = "required" if one.default is None else f"[{one.default}]" if one.default else "[all]"
        lines.append(f"  {one.name:16}{one.type:15}{default:14}{one.meaning}")
    lines += ["", "Columns:"]
    lines += [f"  {column:25} {meaning}" for column, meaning in asked.columns.items()]
    return "\n".join(lines)
