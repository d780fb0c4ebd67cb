"""Raises this process's limit on open files (RLIMIT_NOFILE), and explains errors caused by the limit."""

from __future__ import annotations

import errno
import resource
from contextlib import suppress

from firstflight.errors import FirstflightError, causes

ENOUGH = 4096
"""Enough for the open files of the store's engine with many tables and parts."""

FEWEST = 128
"""With a lower limit the engine does not start, and does not always report why."""

_TEXTS = ("Too many open files", f"errno: {errno.EMFILE},", f"[Errno {errno.EMFILE}]")


def raise_limit() -> None:
    """Raise the limit to `ENOUGH`, or as far as the system permits.

    Raise FirstflightError if the limit is still below `FEWEST`.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = ENOUGH if hard == resource.RLIM_INFINITY else min(ENOUGH, hard)
    if soft != resource.RLIM_INFINITY and soft < target:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft != resource.RLIM_INFINITY and soft < FEWEST:
        raise FirstflightError(_allow_more())


def sentence(error: BaseException | str) -> str | None:
    """Return a sentence for the user if the limit caused this error, directly or indirectly."""
    for link in [error] if isinstance(error, str) else causes(error):
        is_reached = isinstance(link, OSError) and link.errno in (errno.EMFILE, errno.ENFILE)
        if is_reached or any(text in str(link) for text in _TEXTS):
            return _allow_more()
    return None


def _allow_more() -> str:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return (
        f"too many open files: this process may have {limit} open at a time; raise the limit "
        f"(`ulimit -n {ENOUGH}`, or LimitNOFILE= in a unit) and try again"
    )
