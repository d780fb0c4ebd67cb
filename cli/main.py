"""`firstflight`: finds the subcommand, imports only the modules that it needs, and runs it.

Each group has a folder with a module per subcommand; the module defines a `click` command or group called
`command`. Modules are imported when used, so that `firstflight lab exec` starts fast.
"""

from __future__ import annotations

import atexit
import importlib
import os
import re
import sys
import traceback
from pathlib import Path
from typing import NoReturn

import click

from cli.shared.pass_through import NativeCommand
from firstflight.egress import lab
from firstflight.errors import FirstflightError, UsageError
from firstflight.suggestion import did_you_mean
from firstflight.system import open_files, stdout, terminal

# Group of `firstflight --help` -> subcommand -> (module, one line of help).
GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "Measure": {
        "probe": ("cli.measure.probe", "Probe how QUIC servers answer a first packet."),
        "handshake": ("cli.measure.handshake", "Complete QUIC handshakes and send one HTTP/3 request each."),
        "resolve": ("cli.measure.resolve", "Resolve names to addresses and HTTPS records."),
        "tcp-options": ("cli.measure.tcp_options", "Find out which TCP options servers agree to."),
        "crawl": ("cli.measure.crawl", "Find a file to download on the web site of each name."),
        "download": ("cli.measure.download", "Download files under chosen TCP option sets and over QUIC."),
        "watch": ("cli.measure.watch", "Probe names repeatedly at set times."),
        "scan": ("cli.measure.scan", "Scan with your own ZMap or QScanner."),
    },
    "Look at results": {
        "report": ("cli.look.report", "Write a report page, or print a table of a paper."),
        "query": ("cli.look.query", "Run a named query on the store."),
        "sql": ("cli.look.sql", "Run an SQL query on the store (read-only)."),
        "trace": ("cli.look.trace", "Show the packets of a row."),
        "dashboard": ("cli.look.dashboard", "Serve charts and tables of the store to browsers."),
        "calibrate": ("cli.look.calibrate", "Compare first answers to probes with full handshakes."),
        "schema": ("cli.look.schema", "Describe the columns of a record kind."),
        "dissect": ("cli.look.dissect", "Evaluate packet captures; write records."),
        "qlog": ("cli.look.qlog", "Convert the connections in captures to qlog files."),
        "qlog-metrics": ("cli.look.qlog_metrics", "Print the RTT estimates in qlog files of QUIC stacks."),
        "stacks": ("cli.look.stacks", "Derive an entry of the table of QUIC stacks from handshakes."),
    },
    "Run a campaign": {
        "campaign": ("cli.run.campaign", "Run a measurement campaign, or resume one."),
        "stage": ("cli.run.stage", "Run one stage of a campaign."),
        "runs": ("cli.run.runs", "List runs with their states and counts, or stop a run."),
        "doctor": ("cli.run.doctor", "Check this machine before it measures."),
    },
    "Manage a store": {
        "store": ("cli.store.store", "Share the embedded store with several programs."),
        "db": ("cli.store.db", "Create, inspect and expire the tables of the store."),
        "load": ("cli.store.load", "Load record files into the store."),
        "export": ("cli.store.export", "Write runs into a folder that can be published."),
        "import": ("cli.store.imports", "Import the output of other scanners into the store."),
    },
    "Operate a site": {
        "uploads": ("cli.site.uploads", "List, load and remove a vantage point's pending uploads."),
        "optout": ("cli.site.optout", "Record opt-outs, and follow the centre's list."),
        "site": ("cli.site.site", "Monitor a machine of a site, and make backups."),
    },
    "Try it in the lab": {
        "lab": ("cli.lab.lab", "Start, use and remove the test Internet."),
        "testbed": ("cli.lab.testbed", "Repeat experiments of the papers in simulated time."),
    },
}
COMMANDS = {name: entry for group in GROUPS.values() for name, entry in group.items()}
"""Subcommand -> (module, one line of help)."""

TRACEBACK_VARIABLE = "FIRSTFLIGHT_TRACEBACK"
"""Environment variable: any value shows the traceback of an unexpected error."""

_NOT_A_CHOICE = re.compile(r"'(.*?)' is not one of ")

VERSION = click.version_option(package_name="firstflight", prog_name="firstflight")


def add_version(command: click.Command) -> None:
    """Add `--version` to a command and all its subcommands, except commands that execute a Rust program."""
    if command.add_help_option and all(option.name != "version" for option in command.params):
        VERSION(command)
    if isinstance(command, click.Group):
        for below in command.commands.values():
            add_version(below)


class LazyGroup(click.Group):
    """A group that imports its subcommands on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(COMMANDS[cmd_name][0]).command
        assert isinstance(command, click.Command)
        add_version(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the subcommand; NoSuchCommand suggests subcommands with similar names."""
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as error:
            raise click.exceptions.NoSuchCommand(args[0], possibilities=COMMANDS, ctx=ctx) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        widest = max(map(len, COMMANDS))
        for title, group in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(name.ljust(widest), help_line) for name, (_, help_line) in group.items()]
                )


@click.command(
    cls=LazyGroup,
    help="Measures how servers answer the first packets of a connection, over QUIC and TCP.",
    epilog='Example: firstflight sql "SELECT * FROM table1"',
)
@VERSION
def root() -> None:
    """Group the subcommands; does nothing itself."""


def main() -> None:
    """Run the command line; a `FirstflightError` becomes one sentence and its exit status."""
    stdout.replace_closed()
    atexit.register(_drop_messages)
    try:
        lab.enforce()
        _check_arguments(sys.argv[1:])
        status = root.main(prog_name="firstflight", standalone_mode=False)
        sys.stdout.flush()
    except FirstflightError as error:
        _fail(str(error), error.exit_status)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(2)
    except click.ClickException as error:
        _fail(_usage_message(error), 2)
    except (click.Abort, KeyboardInterrupt):
        _fail("interrupted", 130)
    except BrokenPipeError:
        _drop_output()  # the reader has closed the pipe
        sys.exit(0)
    except OSError as error:
        if many := open_files.sentence(error):
            _fail(many, 1)
        cause = f" ({error.filename})" if error.filename else _likely_cause()
        terminal.echo(f"firstflight: I/O error: {error.strerror or error}{cause}", err=True)
        _drop_output()
        sys.exit(3)
    except Exception as error:
        if os.environ.get(TRACEBACK_VARIABLE):
            raise
        _fail(open_files.sentence(error) or _missing_package(error) or _internal_error(error), 1)
    # Without standalone mode, click returns the status of `ctx.exit`. Commands return no value.
    sys.exit(status if isinstance(status, int) else 0)


def _check_arguments(arguments: list[str]) -> None:
    """Refuse arguments that are not UTF-8, because records, messages and queries are UTF-8."""
    if arguments and _passes_arguments_on(arguments[0]):
        return
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError as error:
            raise UsageError(f"the argument {os.fsencode(argument)!r} is not UTF-8") from error


def _passes_arguments_on(name: str) -> bool:
    """Return whether a subcommand passes its arguments unchanged to another program."""
    return name == "lab" or native_program(name) is not None


def native_program(name: str) -> str | None:
    """Return the native program that reads a subcommand's arguments; `None` if this program does."""
    command = root.get_command(click.Context(root), name)
    return command.program if isinstance(command, NativeCommand) else None


def _usage_message(error: click.ClickException) -> str:
    """Return click's error as one sentence that refers to the help."""
    message = " ".join(error.format_message().split())
    if isinstance(error, click.BadParameter) and error.param and isinstance(error.param.type, click.Choice):
        given = _NOT_A_CHOICE.match(error.message)
        known = map(str, error.param.type.choices)
        message = message.removesuffix(".") + (did_you_mean(given[1], known) if given else "")
    context = getattr(error, "ctx", None)
    if context is None:
        return message
    return f"{message.removesuffix('.')} (see {context.command_path} --help)"


def _missing_package(error: Exception) -> str:
    """Return the message if a Python package is missing, as `make demo` leaves some out; else empty."""
    package = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if not package or (Path(__file__).resolve().parents[1] / package).is_dir():
        return ""
    return f"the Python package {package!r} is missing: run `make setup`"


def _internal_error(error: Exception) -> str:
    """Return the message for an internal error: the exception and the location, without a traceback."""
    ours = Path(__file__).resolve().parent.parent
    locations = [
        f"{Path(frame.filename).relative_to(ours)}, line {frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).is_relative_to(ours) and ".venv" not in Path(frame.filename).parts
    ]
    message = " ".join(f"{type(error).__name__}: {error}".split())
    return (
        f"a fault of firstflight itself, {message} "
        f"({locations[-1] if locations else 'outside of its files'}): "
        f"please report it; {TRACEBACK_VARIABLE}=1 shows the traceback"
    )


def _fail(sentence: str, status: int) -> NoReturn:
    terminal.echo(f"firstflight: {sentence}", err=True)
    sys.exit(status)


def _likely_cause() -> str:
    """Return the likely cause of a system error without a file name; empty if unknown."""
    try:
        os.getcwd()  # noqa: PTH109
    except OSError:
        return " (the working directory no longer exists: change to another one)"
    return ""


def _drop_output() -> None:
    """Redirect standard output to /dev/null: Python flushes it at exit, which would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _drop_messages() -> None:
    """Redirect standard error to /dev/null if writing fails: flushing it would change the exit status."""
    if sys.stderr is None:
        return
    try:
        sys.stderr.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
