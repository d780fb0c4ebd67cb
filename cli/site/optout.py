"""`firstflight optout`: records opt-outs, and keeps a vantage point's copy of the site's list."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from threading import Event

import click

from cli.shared.options import InputPath
from firstflight.errors import FirstflightError, InputError, UsageError
from firstflight.system import stdout, terminal


@click.group(epilog="Example: firstflight optout add 192.0.2.0/24 example.org --note 'mail of 3 May'")
def command() -> None:
    """Record opt-outs, and follow the centre's list (docs/site/opt-outs.md)."""


@command.command(epilog="Example: firstflight optout add 192.0.2.0/24 example.org --note 'mail of 3 May'")
@click.argument("entries", nargs=-1, required=True, metavar="ENTRY...")
@click.option("--note", default="", metavar="TEXT", help="Comment to store with the entries.")
def add(entries: tuple[str, ...], note: str) -> None:
    """Add names, addresses, networks or ranges to the list in FIRSTFLIGHT_OPTOUT; run it at the centre.

    Vantage points that follow the list stop contacting them within ten seconds, even in running stages.
    """
    from orchestration.site import optout

    new = optout.add(entries, note)
    terminal.echo(f"{len(new)} entries added, {len(set(entries)) - len(new)} already listed", err=True)


@command.command(epilog="Example: firstflight optout status")
def status() -> None:
    """Print the list in force on this machine.

    For a copy, also print the age of the last confirmation; exit status 1 if it is too old.
    """
    from firstflight.egress import current, lists

    stdout.check_open()
    value = current.machine_list()
    if value is None:
        raise UsageError(f"{current.VARIABLE} names no list: only the lists of a run are in force")
    path = Path(value.removeprefix(current.FOLLOWED))
    count = sum(1 for _ in lists.checked(path, names_too=True))
    if not value.startswith(current.FOLLOWED):
        terminal.echo(f"{path}  {count} entries")
        return
    age_s = current.age(path)
    how_old = "never confirmed in this boot" if age_s is None else f"confirmed {age_s:.1f} s ago"
    terminal.echo(f"{path}  {count} entries  {how_old}")
    if age_s is None or age_s >= current.SEND_FOR_S:
        raise FirstflightError("the list is not confirmed: nothing is sent from here")


@command.command(
    epilog="Example: firstflight optout follow --centre https://centre.example.org --secret-file jwt_secret"
)
@click.option("--centre", metavar="URL", help="URL of the centre [from AIRFLOW__EDGE__API_URL].")
@click.option(
    "--secret-file", required=True, type=InputPath(), metavar="FILE", help="The workers' secret, one line."
)
def follow(centre: str | None, secret_file: Path) -> None:
    """Keep a copy of the centre's list in FILE (FIRSTFLIGHT_OPTOUT=followed:FILE), until Ctrl-C or SIGTERM.

    This machine sends nothing if the centre has not confirmed the list for 60 s.
    """
    from firstflight.egress import current
    from firstflight.errors import Interrupted
    from orchestration.site.optout import Follower

    value = current.machine_list()
    if value is None or not value.startswith(current.FOLLOWED):
        raise UsageError(f"{current.VARIABLE} must be followed:FILE: the file that senders here read")
    url = centre or os.environ.get("AIRFLOW__EDGE__API_URL", "").partition("/edge_worker/")[0]
    if not url.startswith(("https://", "http://")):
        raise UsageError("name the centre by --centre https://...")
    ended = Event()
    caught: list[int] = []

    def end(number: int, _: object) -> None:
        caught.append(number)
        ended.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    path = Path(value.removeprefix(current.FOLLOWED))
    say = lambda text: terminal.echo(f"optout: {text}", err=True)  # noqa: E731
    Follower(url, lambda: _secret(secret_file), path, say).follow(ended)
    if signal.SIGINT in caught:
        raise Interrupted("interrupted; the list is no longer confirmed")


def _secret(path: Path) -> str:
    """Return the secret; read it each time, because it may change."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {error}") from error
