"""Errors that a person reads: one sentence saying what is wrong, where, and what to do."""

from __future__ import annotations


class FirstflightError(Exception):
    """Base of every error shown as one sentence; `exit_status` is what the command ends with."""

    exit_status = 1


class UsageError(FirstflightError):
    """Wrong use or configuration: nothing was done (exit 2)."""

    exit_status = 2


class InputError(FirstflightError):
    """Unreadable input: what came before it is kept (exit 3)."""

    exit_status = 3


class Interrupted(FirstflightError):
    """Stopped in order by a signal, or by the run's stop file (exit 130)."""

    exit_status = 130
