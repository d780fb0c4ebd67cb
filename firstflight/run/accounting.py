"""Checks the totals that must hold after a probe stage (definitions.md): each target has exactly one row."""

from __future__ import annotations

from collections.abc import Mapping

from firstflight.errors import FirstflightError

NOT_SENT = ("blocked", "send_failed")
SENT = (
    "iack",
    "coalesced",
    "sh_first",
    "closed",
    "ack_only",
    "retry",
    "version_negotiation",
    "refused",
    "malformed",
    "timeout",
)


def balance(targets: int, sent: int, by_outcome: Mapping[str, int], where: str) -> None:
    """Check that targets = blocked + send_failed + sent, and that sent = the sum of all other outcomes.

    `targets`: the prober's input lines without rejected lines. `sent` counts rows with an attempt. Raise
    FirstflightError with `where` and the numbers if the totals do not match.
    """
    unknown = sorted(set(by_outcome) - set(NOT_SENT) - set(SENT))
    if unknown:
        raise FirstflightError(f"{where}: {unknown[0]!r} is not an outcome in definitions.md")
    not_sent = sum(by_outcome.get(outcome, 0) for outcome in NOT_SENT)
    answered = sum(by_outcome.get(outcome, 0) for outcome in SENT)
    if targets != not_sent + sent or sent != answered:
        raise FirstflightError(
            f"{where}: the sums do not hold: {targets} targets, {not_sent} blocked or not sendable, "
            f"{sent} sent, {answered} with an outcome of a sent probe"
        )
