"""Errors for users: one sentence with the fault, the location and a remedy."""

from __future__ import annotations

from collections.abc import Iterator

_MOST_CAUSES = 20


class FirstflightError(Exception):
    """Base class for errors that are shown as one sentence. `exit_status`: the command's exit status."""

    exit_status = 1


class UsageError(FirstflightError):
    """Wrong usage or configuration. The command did nothing (exit 2)."""

    exit_status = 2


class InputError(FirstflightError):
    """Unreadable input. Earlier results are kept (exit 3)."""

    exit_status = 3


class OutputError(FirstflightError):
    """Output that cannot be written. Earlier output is kept (exit 3)."""

    exit_status = 3


class Interrupted(FirstflightError):
    """Stopped gracefully by a signal or the run's stop file (exit 130)."""

    exit_status = 130


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error, then the errors from which or during which it was raised; the first of all is last."""
    link: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if link is None:
            return
        yield link
        link = link.__cause__ or link.__context__
