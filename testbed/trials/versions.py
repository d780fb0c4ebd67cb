"""Stack versions in trials: several versions of a stack, or versions other than the current one."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from testbed import stacks
from testbed.trials.trial_row import TrialRow

Version = tuple[str, str, str]
"""A stack, its side (`client` or `server`), and its version."""


def of(rows: Sequence[TrialRow]) -> set[Version]:
    """Return the known versions of trials that started."""
    return {
        (row[side], side, row[f"{side}_version"])
        for row in rows
        for side in ("client", "server")
        # The row for a trial that was not done has the version on this machine when it was written.
        if row["client_version"] is not None and row[f"{side}_version"] is not None
    }


def multiple_versions(recorded: Iterable[Version]) -> Iterator[str]:
    """Yield a sentence for each stack with several versions."""
    for (stack, side), versions in itertools.groupby(sorted(recorded), lambda version: version[:2]):
        known = [version for _, _, version in versions]
        if len(known) > 1:
            yield f"The {side} {stack} has several versions in these trials: {', '.join(known)}."


def version_differences(recorded: Iterable[Version]) -> Iterator[str]:
    """Yield a sentence for each version that differs from the version here."""
    for stack, side, version in sorted(recorded):
        definition = stacks.find(stack)
        current = definition.version.known() if side == "client" else definition.server_version
        if current not in (None, version):
            yield (
                f"the {side} {stack} is {version} in the kept trials, and {current} here: use another folder "
                "(--out) to measure the version here"
            )
