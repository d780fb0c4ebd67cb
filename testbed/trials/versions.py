"""Stack versions in trials: several versions of a stack, or versions other than the current one."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from testbed import stacks
from testbed.trials.trial_row import Row

Version = tuple[str, str, str]
"""A stack, its side (`client` or `server`), its version."""


def of(rows: Sequence[Row]) -> set[Version]:
    """Return the known versions of trials that started."""
    return {
        (row[side], side, row[f"{side}_version"])
        for row in rows
        for side in ("client", "server")
        # Without a trial the row has the version that was here when it was written.
        if row["client_version"] is not None and row[f"{side}_version"] is not None
    }


def several(found: Iterable[Version]) -> Iterator[str]:
    """Yield a sentence for each stack with several versions."""
    for (stack, side), own in itertools.groupby(sorted(found), lambda one: one[:2]):
        known = [version for _, _, version in own]
        if len(known) > 1:
            yield f"The {side} {stack} is of several versions in these trials: {', '.join(known)}."


def older(found: Iterable[Version]) -> Iterator[str]:
    """Yield a sentence for each version that differs from the version here."""
    for stack, side, version in sorted(found):
        one = stacks.find(stack)
        here = one.version.known() if side == "client" else one.server_version
        if here not in (None, version):
            yield (
                f"the {side} {stack} is {version} in trials that are kept, and {here} is here: give another "
                "folder by --out to measure that"
            )
