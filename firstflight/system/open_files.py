"""Raises this process's limit on open files (RLIMIT_NOFILE), and explains errors when it is reached."""

from __future__ import annotations

import errno
import resource
from contextlib import suppress

from firstflight.errors import FirstflightError

ENOUGH = 4096
"""Files that the store's engine has open at a time with many tables and parts, and some more."""

FEWEST = 128
"""With fewer the engine does not start, and does not always say why."""

_TEXTS = ("Too many open files", f"errno: {errno.EMFILE},", f"[Errno {errno.EMFILE}]")


def raise_limit() -> None:
    """Raise the limit to `ENOUGH`, as far as the system lets this process.

    FirstflightError if it is below `FEWEST` then.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(ENOUGH, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft != resource.RLIM_INFINITY and soft < FEWEST:
        raise FirstflightError(_allow_more())


def sentence(error: BaseException | str) -> str | None:
    """Return a sentence for the user if reaching the limit caused this error, directly or indirectly."""
    link: BaseException | str | None = error
    for _ in range(20):
        if link is None:
            return None
        reached = isinstance(link, OSError) and link.errno in (errno.EMFILE, errno.ENFILE)
        if reached or any(text in str(link) for text in _TEXTS):
            return _allow_more()
        link = None if isinstance(link, str) else link.__cause__ or link.__context__
    return None


def _allow_more() -> str:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return (
        f"too many open files: this process may have {limit} open at a time; raise the limit "
        f"(`ulimit -n {ENOUGH}`, or LimitNOFILE= in a unit) and try again"
    )
