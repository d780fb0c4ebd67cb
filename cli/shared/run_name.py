"""Opens the run that a user names; prints the run that `newest` selects."""

from __future__ import annotations

from firstflight.run.run import NEWEST, Run
from firstflight.system import terminal


def opened(name: str, kind: str | None = None) -> Run:
    """Return the run `name`: an id, a path, or `newest`. UsageError if it does not exist.

    `newest` is the newest run with a record file of `kind`. The id and the number of such runs are printed on
    standard error.
    """
    if name != NEWEST:
        return Run.open(name)
    run, number = Run.newest(kind)
    having = f" with {kind}" if kind else ""
    of = f"the newest of {number} runs" if number > 1 else "the only run"
    terminal.echo(f"run {run.id}, {of}{having}", err=True)
    return run
