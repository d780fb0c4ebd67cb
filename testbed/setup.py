"""`make testbed-setup`: builds what the guest needs, once.

python -m testbed.setup [--jobs N]
"""

from __future__ import annotations

import argparse
import os
import sys

from firstflight.errors import FirstflightError
from firstflight.system import terminal
from testbed import apart, kernel, patched


def report(text: str) -> None:
    """Print a message on standard error."""
    terminal.echo(f"testbed: {text}", err=True)


def main(arguments: list[str] | None = None) -> int:
    """Build the kernel unless it is there, servers on changed copies, clients apart; return the status."""
    parser = argparse.ArgumentParser(
        prog="python -m testbed.setup", description="Builds the guest's kernel, once, servers and clients."
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="compilers at a time")
    jobs = parser.parse_args(arguments).jobs
    if jobs < 1:
        parser.error(f"--jobs {jobs} is less than 1")
    try:
        report(f"the kernel is {kernel.build(report, jobs)}")
        report(f"on changed copies of their stacks: {', '.join(patched.build_all())}")
        report(f"packages of their own: {', '.join(apart.build_all())}")
    except FirstflightError as error:
        report(str(error))
        return error.exit_status
    except KeyboardInterrupt:
        report("interrupted")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
