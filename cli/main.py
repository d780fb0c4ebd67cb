"""`firstflight`: finds the subcommand, imports only what it needs, runs it.

Subcommands live one per module in this folder; each module defines one `click` command or group
called `command`. They are imported when used, so that `firstflight lab exec` starts fast.
"""

from __future__ import annotations

import importlib
import os
import sys
from importlib.metadata import version

import click

from firstflight.errors import FirstflightError

# subcommand -> (module, one line of help)
COMMANDS: dict[str, tuple[str, str]] = {
    "campaign": ("cli.campaign", "Run a whole measurement campaign, or go on with one."),
    "db": ("cli.db", "Create and inspect the tables of the store."),
    "dissect": ("cli.dissect", "Turn captures into records."),
    "lab": ("cli.lab", "Raise, use and remove the test Internet."),
    "load": ("cli.load", "Load record files into the store."),
    "probe": ("cli.probe", "Probe the first flight of QUIC servers."),
    "query": ("cli.query", "Ask the store one of the named questions."),
    "report": ("cli.report", "Make a page about a run, or print the tables of the papers."),
    "runs": ("cli.runs", "List runs with their states and counts."),
    "schema": ("cli.schema", "Describe the columns of a record kind."),
    "sql": ("cli.sql", "Ask the store a question (read-only)."),
    "stage": ("cli.stage", "Run one stage of a campaign alone."),
    "store": ("cli.store", "Share the embedded store with several programs."),
    "trace": ("cli.trace", "Show the packets behind a row."),
    "watch": ("cli.watch", "Probe names at set times, again and again."),
}


VERSION = click.version_option(version("firstflight"), prog_name="firstflight")


def add_version(command: click.Command) -> None:
    """Give a command and all below it `--version`; those that stand for a native program have its own."""
    if command.add_help_option and all(option.name != "version" for option in command.params):
        VERSION(command)
    if isinstance(command, click.Group):
        for below in command.commands.values():
            add_version(below)


class LazyGroup(click.Group):
    """A group whose subcommands are imported on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(COMMANDS[cmd_name][0]).command
        assert isinstance(command, click.Command)
        add_version(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in sorted(COMMANDS)])


@click.command(
    cls=LazyGroup,
    help="Measures how the edges of the Internet answer the first flight of a connection.",
    epilog='Example: firstflight sql "SELECT * FROM table1"',
)
@VERSION
def root() -> None:
    """Hold the subcommands; does nothing by itself."""


def main() -> None:
    """Run the command line; a `FirstflightError` becomes one sentence and its exit status."""
    if sys.stdout is None:  # closed by the caller: nobody wants the answer
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115
    try:
        status = root.main(standalone_mode=False)
        sys.stdout.flush()
    except FirstflightError as error:
        click.echo(f"firstflight: {error}", err=True)
        sys.exit(error.exit_status)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        click.echo("firstflight: interrupted", err=True)
        sys.exit(130)
    except BrokenPipeError:
        _drop_output()  # the reader has seen enough
        sys.exit(0)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        click.echo(f"firstflight: the system refused to go on: {error.strerror or error}{where}", err=True)
        _drop_output()
        sys.exit(3)
    # Without standalone mode click gives the status of `ctx.exit` as the value; commands give none.
    sys.exit(status if isinstance(status, int) else 0)


def _drop_output() -> None:
    """What could not be written is tried again when Python ends, and would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
