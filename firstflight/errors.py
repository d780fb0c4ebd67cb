"""Errors for users: one sentence with the fault, the location and a remedy."""

from __future__ import annotations


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
