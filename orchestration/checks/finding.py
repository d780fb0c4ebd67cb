"""A check's result."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from firstflight.errors import UsageError


class CheckStatus(Enum):
    """How a check ended. Only `FAILED` stops a campaign."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    NOT_CHECKED = "not checked"


@dataclass(frozen=True)
class Finding:
    """A check's result: its name, a description, and an optional cure.

    `exit_status`: the exit status of a campaign that the finding stops.
    """

    name: str
    state: CheckStatus
    text: str
    cure: str | None = None
    exit_status: int = UsageError.exit_status

    @property
    def sentence(self) -> str:
        """Return the description and the cure, without line breaks."""
        line = f"{self.name}: {' '.join(self.text.split())}"
        return line if self.cure is None else f"{line}; {self.cure}"

    def __str__(self) -> str:
        return f"{self.state.value}: {self.sentence}"


def ok(name: str, text: str) -> Finding:
    """Return a finding that needs no action."""
    return Finding(name, CheckStatus.OK, text)


def warning(name: str, text: str, cure: str) -> Finding:
    """Return a finding about a problem that makes results worse or less certain."""
    return Finding(name, CheckStatus.WARNING, text, cure)


def failed(
    name: str, text: str, cure: str | None = None, exit_status: int = UsageError.exit_status
) -> Finding:
    """Return a finding about a problem that prevents a measurement."""
    return Finding(name, CheckStatus.FAILED, text, cure, exit_status)


def not_checked(name: str, why: str) -> Finding:
    """Return a finding for a check that was not made."""
    return Finding(name, CheckStatus.NOT_CHECKED, why)
