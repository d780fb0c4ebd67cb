"""`firstflight query`: runs a named query, or lists them."""

from __future__ import annotations

import click

from cli.shared import options
from firstflight.errors import UsageError
from firstflight.system import terminal


@click.command(
    epilog="Example: firstflight query --search certificate\n\n"
    "Example: firstflight query handshake_stages --param run=newest --param cdn=Cloudflare\n\n"
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
@options.wide
@click.option(
    "--search",
    metavar="TEXT",
    help="List the queries that have these words in name, question, parameters or columns.",
)
@click.option(
    "--about", is_flag=True, help="Describe the parameters and columns of the query; do not run it."
)
@click.option(
    "--sql", "show_sql", is_flag=True, help="Print the SQL with placeholders for parameters; do not run it."
)
def command(
    name: str | None,
    given: tuple[str, ...],
    output_format: str | None,
    wide: bool,
    search: str | None,
    about: bool,
    show_sql: bool,
) -> None:
    """Run the named query NAME on the store and print the result; without NAME, list the queries by group.

    docs/queries.md describes all queries. Standard error shows the run that `run=newest` selects, and the
    reason if there are no rows.
    """
    from firstflight.system import stdout
    from reports import query
    from schemas.sql import Dialect
    from store import DATABASE

    stdout.check_open()
    if name is None:
        if given:
            raise UsageError("--param goes with the NAME of a query; `firstflight query` lists them")
        _list(search or "")
        return
    if search is not None:
        raise UsageError("--search lists queries: leave out NAME")
    named_query = query.load(name)
    parameters = _pairs(given)
    if about:
        terminal.echo(_description(named_query))
    elif show_sql:
        terminal.echo(named_query.rendered(parameters, Dialect(DATABASE)))
    else:
        _answer(named_query, parameters, output_format, wide)


def _answer(named_query: object, parameters: dict[str, str], output_format: str | None, wide: bool) -> None:
    from firstflight.system import interrupt
    from reports import chosen_run, known, no_rows, query
    from store import confined_command as confined
    from store import open_store

    assert isinstance(named_query, query.NamedQuery)
    named_query.check(parameters)
    confined.confine_to_reading()
    with interrupt.exit_on_sigint(), open_store() as store:
        known.check(store, parameters)
        kinds = named_query.newest_of(parameters)
        choice = chosen_run.newest(store, kinds) if kinds else None
        given = {**parameters, "run": choice.run} if choice else parameters
        answer = query.asked_of(store, named_query.name, given, options.asked_format(output_format))
        reason = no_rows.reason(store, named_query, parameters) if no_rows.is_empty(answer) else ""
    options.write(answer, given=output_format, wide=wide)
    for sentence in filter(None, (choice.sentence if choice else "", reason)):
        terminal.echo(sentence, err=True)


def _list(search: str) -> None:
    from reports import query

    groups = query.grouped(search)
    if not groups:
        terminal.echo(f"no query has {search!r} in its name, question, parameters or columns", err=True)
    for group, queries in groups.items():
        terminal.echo(f"{group}:")
        for named_query in queries:
            terminal.echo(f"  {named_query.name:26} {named_query.answers}")
        terminal.echo("")


def _pairs(given: tuple[str, ...]) -> dict[str, str]:
    values: dict[str, str] = {}
    for pair in given:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise UsageError(f"--param {pair}: write it as KEY=VALUE, for example --param since=2026-11-01")
        if key in values:
            raise UsageError(f"--param {key} is given twice")
        values[key] = value
    return values


def _description(named_query: object) -> str:
    from reports.query import NamedQuery

    assert isinstance(named_query, NamedQuery)
    lines = [named_query.answers, "", "Parameters:"]
    for parameter in named_query.parameters:
        default = (
            "required"
            if parameter.default is None
            else f"[{parameter.default}]"
            if parameter.default
            else "[all]"
        )
        lines.append(f"  {parameter.name:16}{parameter.type:15}{default:14}{parameter.meaning}")
    lines += ["", "Columns:"]
    lines += [f"  {column:25} {meaning}" for column, meaning in named_query.columns.items()]
    return "\n".join(lines)
