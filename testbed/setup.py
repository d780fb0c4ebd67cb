"""`make testbed-setup`: builds everything that guests need, once.

python -m testbed.setup [--jobs N] [--source NAME=FOLDER]
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from firstflight.errors import FirstflightError, UsageError
from firstflight.system import terminal
from testbed import stacks
from testbed.guest import kernel
from testbed.stacks import from_source, packaged, patched, separate_package
from testbed.stacks.from_source import SourceStack


def report(text: str) -> None:
    """Print a message on standard error."""
    terminal.echo(f"testbed: {text}", err=True)


def _source(text: str) -> tuple[str, SourceStack, Path]:
    """Return name, manifest and folder of NAME=FOLDER; UsageError if no stack NAME has a `source`."""
    name, _, folder = text.partition("=")
    source = stacks.find(name).source
    if source is None or not folder:
        names = ", ".join(stack for stack, definition in stacks.load().items() if definition.source)
        raise UsageError(f"--source {text}: expected NAME=FOLDER, where NAME is one of {names}")
    return name, source, Path(folder)


def main(arguments: list[str] | None = None) -> int:
    """Build the kernel if needed, build servers and clients, unpack programs; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m testbed.setup", description="Builds the guest's kernel, once, servers and clients."
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="compilers at a time")
    parser.add_argument(
        "--source",
        action="append",
        default=[],
        metavar="NAME=FOLDER",
        help="also build the client of a stack from a folder of its source (repeatable)",
    )
    given = parser.parse_args(arguments)
    jobs = given.jobs
    if jobs < 1:
        parser.error(f"--jobs {jobs} is less than 1")
    try:
        sources = [_source(text) for text in given.source]
        report(f"the kernel is {kernel.build(report, jobs)}")
        report(f"on changed copies of their stacks: {', '.join(patched.build_all())}")
        report(f"standalone packages: {', '.join(separate_package.build_all())}")
        for name, source, folder in sources:
            report(f"from {folder}: {from_source.build(name, source, folder, jobs)}")
        names = [name for name, _, _ in sources]
        for name, stack in stacks.load().items():
            if stack.source is not None and stack.source.archive is not None and name not in names:
                program = from_source.build_fetched(name, stack.source, jobs)
                version = stack.source.version(name)
                report(f"of {stack.source.archive.package}'s archive: {program}, version {version}")
            if stack.packaged is not None:
                unpacked = packaged.unpack(name, stack.packaged)
                report(f"of Debian's packages: {unpacked}, version {stack.packaged.version(name)}")
    except FirstflightError as error:
        report(str(error))
        return error.exit_status
    except KeyboardInterrupt:
        report("interrupted")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
