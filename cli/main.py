"""`firstflight`: finds the subcommand, imports only what it needs, runs it.

Subcommands live one per module in this folder; each module defines one `click` command or group
called `command`. They are imported when used, so that `firstflight lab exec` starts fast.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from importlib.metadata import version
from pathlib import Path
from typing import NoReturn

import click

from firstflight.egress import lab
from firstflight.errors import FirstflightError, UsageError
from firstflight.system import stdout, terminal

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
    "spool": ("cli.uploads", "What a vantage point keeps until it is in the store."),
    "sql": ("cli.sql", "Ask the store a question (read-only)."),
    "stage": ("cli.stage", "Run one stage of a campaign alone."),
    "store": ("cli.store", "Share the embedded store with several programs."),
    "trace": ("cli.trace", "Show the packets behind a row."),
    "watch": ("cli.watch", "Probe names at set times, again and again."),
}

# Commands that hand their arguments on to another program as they are.
HANDING_ON = {"probe", "dissect", "lab"}

TRACEBACK_VARIABLE = "FIRSTFLIGHT_TRACEBACK"
"""Environment variable: any value shows where an error came from that nobody foresaw."""

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
    stdout.replace_closed()
    try:
        lab.enforce()
        _check_arguments(sys.argv[1:])
        status = root.main(prog_name="firstflight", standalone_mode=False)
        sys.stdout.flush()
    except FirstflightError as error:
        _end(str(error), error.exit_status)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(2)
    except click.ClickException as error:
        _end(_usage(error), 2)
    except (click.Abort, KeyboardInterrupt):
        _end("interrupted", 130)
    except BrokenPipeError:
        _drop_output()  # the reader has seen enough
        sys.exit(0)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else _where_without_a_name()
        terminal.echo(f"firstflight: the system refused to go on: {error.strerror or error}{where}", err=True)
        _drop_output()
        sys.exit(3)
    except Exception as error:
        if os.environ.get(TRACEBACK_VARIABLE):
            raise
        _end(_unforeseen(error), 1)
    # Without standalone mode click gives the status of `ctx.exit` as the value; commands give none.
    sys.exit(status if isinstance(status, int) else 0)


def _check_arguments(arguments: list[str]) -> None:
    """Arguments end up in records, messages and questions, all of which are UTF-8."""
    if arguments and arguments[0] in HANDING_ON:
        return
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError as error:
            raise UsageError(f"the argument {os.fsencode(argument)!r} is no text in UTF-8") from error


def _usage(error: click.ClickException) -> str:
    """What click found wrong, as one sentence with the place of the help."""
    said = " ".join(error.format_message().split())
    context = getattr(error, "ctx", None)
    if context is None:
        return said
    return f"{said.removesuffix('.')} (see {context.command_path} --help)"


def _unforeseen(error: Exception) -> str:
    """A fault of ours: which, and in which of our files, without a screen of Python."""
    ours = Path(__file__).resolve().parent.parent
    places = [
        f"{Path(frame.filename).relative_to(ours)}, line {frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).is_relative_to(ours) and ".venv" not in Path(frame.filename).parts
    ]
    said = " ".join(f"{type(error).__name__}: {error}".split())
    return (
        f"a fault of firstflight itself, {said} ({places[-1] if places else 'outside of its files'}): "
        f"please report it; {TRACEBACK_VARIABLE}=1 shows all of it"
    )


def _end(sentence: str, status: int) -> NoReturn:
    terminal.echo(f"firstflight: {sentence}", err=True)
    sys.exit(status)


def _where_without_a_name() -> str:
    """What an error of the system without a file's name is about, if it can be told."""
    try:
        os.getcwd()  # noqa: PTH109
    except OSError:
        return " (the folder that this was started in is gone: change to another one)"
    return ""


def _drop_output() -> None:
    """What could not be written is tried again when Python ends, and would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
