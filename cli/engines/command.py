"""The command of an engine.

The engine reads the arguments, and handles signals, standard streams, exit status and --help. It replaces
this process, unless names have to be resolved, or its rows are printed as text.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from cli.engines import arguments
from cli.engines.sentences import EngineRow
from cli.shared.pass_through import NativeCommand, become
from firstflight.errors import UsageError
from firstflight.system import terminal
from firstflight.system.binaries import find

if TYPE_CHECKING:
    from cli.engines.addresses import ResolvedNames

_FOR_NAMES = ("--resolver", "--port")
# Segments refer to lines of a list by number, so the list must stay the same.
_NEED_ADDRESSES = ("--feed", "--segments", "--resume")


class Prepared(NamedTuple):
    """Arguments for the engine, descriptors that it inherits, a file of CDN rules (`None`: built-in ones)."""

    arguments: tuple[str, ...]
    descriptors: tuple[int, ...] = ()
    rules: Path | None = None


def engine(
    program: str,
    kind: str,
    text: Callable[[EngineRow], str],
    prepare: Callable[[tuple[str, ...]], Prepared] = Prepared,
) -> NativeCommand:
    """Return the command of the engine `program`, which prints rows of the record kind `kind`.

    `text` describes a row on a terminal. `prepare` changes the arguments.
    """

    @click.command(cls=NativeCommand, program=program)
    @click.argument("given", nargs=-1, type=click.UNPROCESSED)
    @click.pass_context
    def command(context: click.Context, given: tuple[str, ...]) -> None:
        path = find(program)
        prepared = prepare(given)
        read = arguments.read(prepared.arguments)
        call = _Call(str(context.info_name), str(path), kind, text, read, prepared)
        if not read.ask_for_help:
            if call.has_names():
                sys.exit(call.by_name())
            call.check_list_of_addresses()
            if call.for_people and (kind == "dns_answer" or not read.names):
                sys.exit(call.in_text(read.without("--format"), read.names, 0))
        become(path, program, prepared.arguments)

    return command


class _Call:
    """A call of an engine's command: resolves names if necessary, and runs the engine."""

    def __init__(
        self,
        name: str,
        program: str,
        kind: str,
        text: Callable[[EngineRow], str],
        given: arguments.Arguments,
        prepared: Prepared,
    ) -> None:
        self.name, self.program, self.kind, self.text = name, program, kind, text
        self.given, self.prepared = given, prepared
        self._list: Path | None = None

    @property
    def for_people(self) -> bool:
        """Whether rows are printed as text: with `--format text`, or by default on a terminal."""
        formats = self.given.values("--format")
        if formats:
            return formats == ["text"]
        return sys.stdout.isatty() and not self.given.has("--segments", "--dry-run", "--format")

    def has_names(self) -> bool:
        """Return whether names have to be resolved: of the command line, or of a list."""
        if self.kind == "dns_answer":
            return False
        if self.given.names:
            return not self.given.has("--targets", *_NEED_ADDRESSES)
        lists = self.given.values("--targets")
        if len(lists) != 1 or self.given.has("--feed"):
            return False
        from cli.engines import name_lists

        self._list = _kept_input() if lists == ["-"] else Path(lists[0])
        return name_lists.holds_names(self._list)

    def check_list_of_addresses(self) -> None:
        """UsageError if there are options for names, and a list of addresses."""
        if self.kind != "dns_answer" and self.given.values("--targets") and self.given.has(*_FOR_NAMES):
            raise UsageError(
                f"{' and '.join(_FOR_NAMES)} are for names, and {self.given.values('--targets')[0]} lists "
                "addresses; nothing was sent"
            )

    def by_name(self) -> int:
        """Resolve the names, run the engine with their addresses, return the exit status."""
        from cli.engines import addresses

        names, rejected = self._names()
        self._check()
        if self.given.has("--dry-run"):
            addresses.plan(names, self.given)
            self._tell(f"dry run: {len(names)} names would be resolved and contacted; nothing was sent")
            return int(rejected > 0)
        found = addresses.resolve(names, self.given)
        for name, reason in found.without.items():
            self._tell(f"{name} has no address ({reason})")
        if not found.targets:
            self._tell("there is no address to contact; nothing was sent to servers")
            return 1
        with addresses.in_memory(found.as_list(self._port())) as addresses_file:
            options = [*self._options(), "--targets=-"]
            if self.for_people:
                status = self.in_text(options, (), addresses_file.fileno(), found)
            else:
                status = self._run(options, addresses_file.fileno())
        return status or int(rejected > 0 or bool(found.without))

    def in_text(
        self, options: Sequence[str], names: Sequence[str], stdin: int, found: ResolvedNames | None = None
    ) -> int:
        """Run the engine, print a line per row, return the exit status."""
        from cli.engines.lines import Lines

        lines = Lines(self.kind, self.text, self.given, found, self.prepared.rules)
        return self._run([*options, "--format=jsonl", *names], stdin, lines.show)

    def _names(self) -> tuple[list[str], int]:
        """Return the names, and how many lines of the list are rejected."""
        from cli.engines import addresses, name_lists
        from firstflight.host_names import NotAName

        if self._list is None:
            try:
                return addresses.checked(self.given.names), 0
            except NotAName as error:
                raise UsageError(f"{error}; nothing was sent") from error
        if self.given.has(*_NEED_ADDRESSES):
            raise UsageError(
                f"{self._list} lists names: segments number the lines of a list of addresses, so resolve the "
                "names first (firstflight resolve), or run a campaign; nothing was sent"
            )
        name_list = name_lists.read(self._list)
        for line, reason in name_list.rejected:
            self._tell(f"{self._list}, line {line} rejected: {reason}")
        return name_list.names, len(name_list.rejected)

    def _options(self) -> list[str]:
        """Return the engine's options for targets that are addresses."""
        return self.given.without("--targets", "--format", *_FOR_NAMES)

    def _port(self) -> int:
        text = self.given.values("--port") or ["443"]
        if len(text) > 1 or not text[0].isdecimal() or not 1 <= int(text[0]) <= 65535:
            raise UsageError(f"--port {' '.join(text)}: give one number from 1 to 65535; nothing was sent")
        return int(text[0])

    def _check(self) -> None:
        """Exit with the engine's message if the options are wrong, before anything is resolved."""
        import subprocess

        from cli.engines import addresses

        if not self.given.has("--contact", "--allow-net"):
            raise UsageError(
                "--contact is required, so that the owners of these servers can reach you; nothing was sent"
            )
        self._port()
        formats = self.given.only("--format") if self.given.values("--format") != ["text"] else []
        options = [option for option in self._options() if option != "--dry-run"]
        argv = [self.program, *options, *formats, "--targets=-", "--dry-run"]
        with addresses.in_memory(addresses.HEADER) as nothing:
            done = subprocess.run(
                argv,
                stdin=nothing,
                capture_output=True,
                text=True,
                check=False,
                pass_fds=self.prepared.descriptors,
            )
        if done.returncode:
            terminal.echo(done.stderr, err=True, end="")
            sys.exit(done.returncode)

    def _run(self, options: Sequence[str], stdin: int, show: Callable[[bytes], None] | None = None) -> int:
        """Run the engine; pass each output line to `show`, if given. Forwards signals."""
        import subprocess

        from firstflight.system import children

        output = None if show is None else subprocess.PIPE
        process = children.start(
            [self.program, *options],
            own_session=True,
            stdin=stdin,
            stdout=output,
            pass_fds=self.prepared.descriptors,
        )
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, _: process.send_signal(number))
        try:
            for line in process.stdout or ():
                assert show is not None
                show(line)
        except BaseException:
            children.stop(process)
            raise
        return process.wait()

    def _tell(self, message: str) -> None:
        terminal.echo(f"firstflight {self.name}: {message}", err=True)


def _kept_input() -> Path:
    """Replace standard input by a file in memory with the same content; return the path.

    UsageError if it is closed.
    """
    from cli.engines.addresses import in_memory

    if sys.stdin is None:
        raise UsageError("standard input is closed: give the list there, or name a file; nothing was sent")
    with in_memory("") as kept:
        kept.write(sys.stdin.buffer.read())
        kept.seek(0)
        os.dup2(kept.fileno(), 0)
    return Path("/dev/stdin")
