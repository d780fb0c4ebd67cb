"""`firstflight report`: creates a page about a run, or prints the papers' tables, from store or captures."""

from __future__ import annotations

import os
import sys
import tempfile
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.shared import options
from firstflight.errors import InputError
from firstflight.system import spreadsheet, stdout, terminal

if TYPE_CHECKING:
    from reports.chosen_run import Choice

_output_format = click.option(
    "--format",
    "output_format",
    type=click.Choice(["table", "jsonl", "csv"]),
    default="table",
    help="Format of the output.",
)


_figures = click.option(
    "--figures",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write each figure as SVG, PNG and PDF, and the data as CSV, to DIR. The page links to them.",
)


@click.group(
    invoke_without_command=True,
    no_args_is_help=True,
    epilog="Example: firstflight report --out var/report\n\nExample: firstflight report table1",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write a page with tables and figures about a run to DIR/index.html.",
)
@_figures
@click.option("--run", metavar="RUN", help="Run id, or newest [default: newest, with probes in the store].")
@click.option(
    "--vantage", metavar="NAME", help="Vantage point of Figure 8 (default: the one with most data)."
)
@click.option("--day", type=click.DateTime(["%Y-%m-%d"]), metavar="YYYY-MM-DD", help="Day (UTC) of Figure 8.")
@click.pass_context
def command(
    context: click.Context,
    out: Path | None,
    figures: Path | None,
    run: str | None,
    vantage: str | None,
    day: datetime | None,
) -> None:
    """Create a page about a run or its figures as files, or print the tables of the papers.

    The page is a single file that works without server, network and scripts. The command prints the path of
    the page; without --out, it prints the paths of the figures.
    """
    if context.invoked_subcommand is not None:
        if out or figures or run or vantage or day:
            raise click.UsageError(
                f"--out, --figures, --run, --vantage and --day have no effect before "
                f"{context.invoked_subcommand}: remove them, or put options of "
                f"{context.invoked_subcommand} after it"
            )
        return
    if out is None and figures is None:
        raise click.UsageError(
            "give --out DIR for a page, --figures DIR for its figures, or the name of a table to print"
        )
    _page(out, figures, run, vantage, day.date() if day else None)


def _page(
    out: Path | None, figures: Path | None, run: str | None, vantage: str | None, day: date | None
) -> None:
    from firstflight.system import interrupt
    from store import open_store

    _confine_page(out, figures)
    from reports import chosen_run
    from reports.page import content, page  # imported after confinement: numpy starts threads

    with interrupt.exit_on_sigint(), open_store() as store:
        named = run if run != chosen_run.NEWEST else None
        choice = chosen_run.Choice(named) if named else content.newest(store)
        gathered = page.collect(store, _announced_run(choice), vantage, day) if choice else None
    if gathered is None:
        terminal.echo("the store has no run, so the page is empty", err=True)
    elif gathered.coverage.missing:
        for sentence in gathered.coverage.missing:
            terminal.echo(f"missing: {sentence}", err=True)
    paths = [page.write(gathered, out, figures)] if out else page.write_figures(gathered, figures or Path())
    for path in paths:
        terminal.echo(path)


@command.command(epilog="Example: firstflight report table1 --run 20261120T063905Z-a1b2c3 --format jsonl")
@click.option("--run", metavar="RUN", help="Run id, or newest [default: newest, with probes in the store].")
@click.option(
    "--truth",
    type=options.InputPath(),
    metavar="FILE",
    help="Declared values for comparison (JSON lines or CSV: cdn, domains, iack_share_max, variation).",
)
@_output_format
@click.option(
    "--resamples",
    type=click.IntRange(min=100, max=100_000),
    default=2000,
    show_default=True,
    metavar="N",
    help="Resamples of the bootstrap.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**63 - 1),
    default=1,
    show_default=True,
    metavar="N",
    help="Seed of the bootstrap.",
)
def table1(run: str | None, truth: Path | None, output_format: str, resamples: int, seed: int) -> None:
    """Print Table 1: share of names with instant ACK per CDN, counted as in the paper and by outcome.

    The table prints percent; jsonl and csv print shares from 0 to 1. --truth adds columns declared_*.
    """
    from firstflight.system import interrupt
    from reports.numbers import truth as truths
    from store import confined_command as confined
    from store import open_store

    stdout.check_open()
    declared = truths.read(truth) if truth else None
    confined.confine_to_reading()
    from reports import chosen_run
    from reports.tables import table1 as made  # imported after confinement: numpy starts threads
    from reports.tables import text

    with interrupt.exit_on_sigint(), open_store() as store:
        chosen = _announced_run(chosen_run.choose(store, run, chosen_run.PROBES))
        table = made.collect(store, chosen, resamples=resamples, seed=seed)
    if output_format == "table":
        sys.stdout.write(text.table1(table, declared, terminal=sys.stdout.isatty()))
        return
    rows = table.as_dicts()
    if declared is not None:
        for row in rows:
            declared_cdn = declared.get(row["cdn"])
            for name in ("domains", "iack_share_max", "variation"):
                row[f"declared_{name}"] = getattr(declared_cdn, name, None)
    _print(rows, output_format)


@command.command(epilog="Example: firstflight report table3 captures/ --format jsonl")
@click.argument("folder", metavar="DIR", type=options.InputPath(folder=True))
@_output_format
def table3(folder: Path, output_format: str) -> None:
    """Print Table 3 from captures: the ACK delay that each server reports.

    DIR has one capture per server, NAME.pcap, and a key log for each, NAME.keys. Unreadable captures are
    listed at the end (exit status 3).
    """
    from reports.tables import table3 as made
    from reports.tables import text

    stdout.check_open()
    rows, unreadable = made.collect(folder)
    dicts = [row.as_dict() for row in rows]
    if output_format == "table":
        sys.stdout.write(text.table3(rows, terminal=sys.stdout.isatty()))
    else:
        _print(dicts, output_format)
    if unreadable:
        raise InputError("; ".join(unreadable))


@command.command(epilog="Example: firstflight report downloads --run newest --out var/report")
@click.option("--run", default="newest", show_default=True, metavar="RUN", help="Run id, or newest.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Instead write a page with the tables and Figures 1 to 3 to DIR/downloads.html, and print its path.",
)
@_figures
@_output_format
def downloads(run: str, out: Path | None, figures: Path | None, output_format: str) -> None:
    """Print Tables 1 and 2 of downloads and the TCP option survey, with the values of the ANRW 2023 paper.

    jsonl and csv have one line per value: edition (ours, anrw, warmup), table, row, column, value.
    """
    from firstflight.system import interrupt
    from store import confined_command as confined
    from store import open_store

    stdout.check_open()
    if out is not None or figures is not None:
        _downloads_page(out, figures, run)
        return
    confined.confine_to_reading()
    from reports import chosen_run
    from reports.downloads import option_survey  # imported after confinement: numpy starts threads
    from reports.downloads import tables as made

    with interrupt.exit_on_sigint(), open_store() as store:
        run = _announced_run(chosen_run.choose(store, run, chosen_run.DOWNLOADS))
        values = [*made.collect(store, run), *made.published()]
        survey = [*option_survey.collect(store, run), *option_survey.published()]
    if output_format == "table":
        sys.stdout.write(terminal.lines(f"{made.text(values)}\n{option_survey.text(survey)}"))
    else:
        _print([value.as_dict() for value in (*values, *survey)], output_format)


@command.command(epilog="Example: firstflight report handshakes --part stacks --format csv")
@click.option("--run", default="newest", show_default=True, metavar="RUN", help="Run id, or newest.")
@click.option(
    "--part",
    type=click.Choice(
        [
            *("outcomes", "stages", "ciphers", "stacks", "parameters", "certificates"),
            *("chain_sizes", "amplification", "keys", "servers", "locations"),
        ]
    ),
    help="One table of the answer; default: all as a table, outcomes in any other format.",
)
@_output_format
def handshakes(run: str, part: str | None, output_format: str) -> None:
    """Print results of completed handshakes: outcomes, stacks, ciphers, certificates, servers, edges.

    The table prints percent and ms; jsonl and csv print shares from 0 to 1 and us, as column names indicate.
    """
    from firstflight.system import interrupt
    from store import confined_command as confined
    from store import open_store

    stdout.check_open()
    confined.confine_to_reading()
    from reports import chosen_run
    from reports.page import handshake_tables as made

    with interrupt.exit_on_sigint(), open_store() as store:
        run = _announced_run(chosen_run.choose(store, run, chosen_run.HANDSHAKES))
        found = made.collect(store, run)
    if output_format == "table":
        sys.stdout.write(made.text(run, found, part, terminal=sys.stdout.isatty()))
    else:
        _print(made.rows(run, found, part or "outcomes"), output_format)


def _downloads_page(out: Path | None, figures: Path | None, run: str) -> None:
    from firstflight.system import interrupt
    from store import open_store

    _confine_page(out, figures)
    from reports import chosen_run
    from reports.downloads import page  # imported after confinement: numpy starts threads

    with interrupt.exit_on_sigint(), open_store() as store:
        gathered = page.collect(store, _announced_run(chosen_run.choose(store, run, chosen_run.DOWNLOADS)))
    paths = [page.write(gathered, out, figures)] if out else page.write_figures(gathered, figures or Path())
    for path in paths:
        terminal.echo(path)


def _announced_run(choice: Choice) -> str:
    """Return the run of a choice; print on standard error which run was chosen."""
    if choice.sentence:
        terminal.echo(choice.sentence, err=True)
    return choice.run


def _confine_page(*folders: Path | None) -> None:
    """Confine the process for writing a page or figures to `folders`."""
    from firstflight.run import provenance
    from store import confined_command as confined

    provenance.tool_version()  # cached for the page, because it runs git
    confined.confine_to_reading(added_to=[confined.nearest_folder(folder) for folder in folders if folder])
    # The folder of matplotlib's font cache; the page's fonts come with firstflight.
    os.environ["MPLCONFIGDIR"] = tempfile.gettempdir()


def _print(rows: list[dict[str, Any]], output_format: str) -> None:
    content = (_jsonl(rows) if output_format == "jsonl" else _csv(rows)).encode()
    stdout.write(terminal.answer(content, output_format, terminal=sys.stdout.isatty()))


def _jsonl(rows: list[dict[str, Any]]) -> str:
    return "".join(terminal.as_json(row) + "\n" for row in rows)


def _csv(rows: list[dict[str, Any]]) -> str:
    """Return rows as CSV; an interval becomes two columns, *_low and *_high."""
    flat = []
    for row in rows:
        columns: dict[str, Any] = {}
        for name, value in row.items():
            if name.endswith("_interval"):
                columns[f"{name}_low"], columns[f"{name}_high"] = value or (None, None)
            else:
                columns[name] = value
        flat.append(columns)
    return spreadsheet.table(flat[0], flat) if flat else ""
