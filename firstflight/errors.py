"""Errors for users: one sentence that says what is wrong, where, and what to do."""

from __future__ import annotations


class FirstflightError(Exception):
    """Base of every error shown as one sentence; `exit_status` is the command's exit status."""

    exit_status = 1


class UsageError(FirstflightError):
    """Wrong use or configuration: nothing was done (exit 2)."""

    exit_status = 2


class InputError(FirstflightError):
    """Unreadable input: results before it are kept (exit 3)."""

    exit_status = 3


class OutputError(FirstflightError):
    """Output that cannot be written: earlier output is kept (exit 3)."""

    exit_status = 3


class Interrupted(FirstflightError):
    """Stopped gracefully by a signal or by the run's stop file (exit 130)."""

    exit_status = 130
