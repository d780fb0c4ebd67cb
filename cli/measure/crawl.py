"""`firstflight crawl`: finds a file of 1 to 10 MB on the web site of each name."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli.shared.options import InputPath, egress
from firstflight.errors import Interrupted, UsageError
from firstflight.system import stdout, terminal

if TYPE_CHECKING:
    from crawler.files.spider import CrawlResult


def _rate(_: click.Context, parameter: click.Parameter, value: float) -> float:
    if not math.isfinite(value):
        raise UsageError(f"--{str(parameter.name).replace('_', '-')}: a number is expected")
    return value


@click.command(epilog="Example: firstflight crawl --targets names.csv --contact me@example.org > files.jsonl")
@click.option(
    "--targets",
    required=True,
    type=click.Path(path_type=Path, allow_dash=True, dir_okay=False),
    metavar="FILE",
    help="CSV with a column domain; - is standard input.",
)
@click.option(
    "--format", "format_", type=click.Choice(["jsonl"]), default="jsonl", help="Format of the output."
)
@click.option(
    "--contact", default="", metavar="TEXT", help="How operators can reach you; sent in User-Agent. Required."
)
@egress
@click.option(
    "--rate",
    type=click.FloatRange(min=0.01),
    default=20.0,
    show_default=True,
    callback=_rate,
    metavar="N",
    help="Requests per second.",
)
@click.option(
    "--per-address-rate",
    type=click.FloatRange(min=0),
    default=1.0,
    show_default=True,
    callback=_rate,
    metavar="N",
    help="Requests per second to an address; 0: no limit.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 10_000),
    default=64,
    show_default=True,
    metavar="N",
    help="Number of names to crawl concurrently.",
)
@click.option(
    "--max-requests",
    type=click.IntRange(1, 10_000),
    default=200,
    show_default=True,
    metavar="N",
    help="Maximum number of requests per name.",
)
@click.option("--resolver", default="", metavar="IP[:PORT]", help="Resolver [first of /etc/resolv.conf].")
@click.option("--roots", type=InputPath(), metavar="FILE", help="Certificates to trust, PEM [Mozilla's].")
@click.option(
    "--journal",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Record finished names here, and skip names that it already lists.",
)
@click.option("--dry-run", is_flag=True, help="Print the plan; send nothing.")
def command(
    targets: Path,
    format_: str,  # noqa: ARG001
    contact: str,
    blocklists: tuple[Path, ...],
    optouts: tuple[Path, ...],
    allow: tuple[str, ...],
    rate: float,
    per_address_rate: float,
    concurrency: int,
    max_requests: int,
    resolver: str,
    roots: Path | None,
    journal: Path | None,
    dry_run: bool,
) -> int:
    """Crawl the web site of each name until a file of 1 to 10 MB is found, and print one line per name.

    Uses only HTTPS and the first address of the name, and obeys robots.txt. `firstflight schema
    download_file` describes the columns.
    """
    from crawler.files import rows
    from crawler.files.fetching.lookup import Lookup
    from crawler.files.fetching.policy import Policy
    from crawler.files.journal import Journal
    from crawler.files.limits import Limits
    from crawler.files.targets import read

    stdout.check_open()
    policy = Policy(blocklists, optouts, allow, contact)
    limits = Limits(requests=max_requests)
    found = read(targets)
    for line, reason in found.rejected:
        terminal.echo(f"{targets}, line {line}: {reason}", err=True)
    names = found.names
    kept = None
    if journal is not None and (journal.exists() or not dry_run):
        kept = Journal(journal, is_only_read=dry_run)
        names = [name for name in names if name not in kept.finished]
    left_out = len(found.names) - len(names)
    terminal.echo(
        f"{len(names)} names, {left_out} done before, {found.duplicates} duplicates, "
        f"{len(found.rejected)} lines rejected",
        err=True,
    )
    if dry_run:
        per_address = f"{per_address_rate:g}" if per_address_rate else "any number"
        terminal.echo(
            f"{len(names)} names, at most {limits.requests} requests and {limits.received_bytes} bytes for "
            f"each; {rate:g} requests a second, {per_address} to one address; nothing was sent"
        )
        return 1 if found.rejected else 0

    from crawler.files import crawl
    from crawler.files.fetching.pace import Pace
    from crawler.files.spider import Task

    columns = rows.own_columns(rows.FILE)

    def show(result: CrawlResult) -> None:
        row = rows.file_row(result) if kept is None else kept.add(result)[rows.FILE]
        stdout.write(json.dumps({name: row[name] for name in columns}).encode() + b"\n")

    def lookup() -> Lookup:
        return Lookup(resolver, policy, task.is_ending)

    if names:
        task = Task(names, lookup, policy.why_not, show, limits, concurrency, stdout.is_unread)
        task.is_confirmed = policy.is_confirmed
        try:
            crawl.run(task, contact=contact, pace=Pace(rate, per_address_rate), roots=roots)
        except Interrupted as error:
            if task.signal is None:
                raise BrokenPipeError from error
            if journal is None:
                raise Interrupted(
                    "interrupted; printed lines are valid, and a crawl with --journal FILE can be continued"
                ) from error
            raise
    return 1 if found.rejected else 0
