"""Confines a command that opens the embedded store, before its first thread and until it ends.

A process that opens a store evaluates the expressions in it (a column's default, a view, a dictionary's
source) with its user's rights, whoever wrote them. Confinement keeps them from other files and from hosts.

A confined process cannot connect to a `store serve` either. So it takes the store's lock before, unless the
store is served by then.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from store.confine.process import Beside, confine
from store.location import EmbeddedLocation, find, make_folder, reserve


def asking(url: str | None = None, *, readable: Sequence[Path] = (), added_to: Sequence[Path] = ()) -> None:
    """Restrict this process to reading the embedded store and below `readable`, and to creating files below
    the folders `added_to`.

    Does nothing if the store is on a server: that needs a connection, and the local engine sees only answers.
    Otherwise the next `open_store` has the lock.
    """
    location = find(url)
    if not isinstance(location, EmbeddedLocation) or location.empty or location.served():
        return
    if reserve(location, once=True):
        confine(location.path, Beside(readable=readable, added_to=added_to), only_reads=True)


def changing(
    url: str | None = None,
    *,
    readable: Sequence[Path] = (),
    writable: Sequence[Path] = (),
    opens_late: bool = False,
) -> None:
    """Restrict this process to the embedded store, reading below `readable`, and everything below `writable`.

    Creates the store's folder if it is missing. Does nothing if the store is on a server. Otherwise this
    process has the lock until it ends; with `opens_late`, `open_store` takes it, and does not find a server
    that was started after this call.
    """
    location = find(url)
    if not isinstance(location, EmbeddedLocation) or location.served():
        return
    make_folder(location)
    if opens_late or reserve(location, once=False):
        confine(location.path, Beside(readable, writable))


def nearest_folder(path: Path) -> Path:
    """Return the folder `path`, or its nearest ancestor that exists."""
    path = path.absolute()
    return next(one for one in (path, *path.parents) if one.is_dir())
