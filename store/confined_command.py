"""Confines a command that opens the embedded store, from before its first thread until it exits.

A process that opens a store evaluates the expressions in it (a column's default, a view, a dictionary's
source) with its user's rights, even if others wrote them. Confinement prevents access to other files and to
hosts.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from store.confine.process import OutsidePaths, confine
from store.location import EmbeddedLocation, find, make_folder


def confine_to_reading(
    url: str | None = None, *, readable: Sequence[Path] = (), added_to: Sequence[Path] = ()
) -> None:
    """Restrict this process to reading the embedded store and below `readable`, and to creating files below
    the folders `added_to`.

    Does nothing if the store is on a server: that needs a connection, and the local engine sees only answers.
    """
    location = find(url)
    if isinstance(location, EmbeddedLocation) and not location.empty and not location.served():
        confine(location.path, OutsidePaths(readable=readable, added_to=added_to), only_reads=True)


def confine_to_writing(
    url: str | None = None, *, readable: Sequence[Path] = (), writable: Sequence[Path] = ()
) -> None:
    """Restrict this process to the embedded store, reading below `readable`, and everything below `writable`.

    Creates the store's folder if it is missing. Does nothing if the store is on a server.
    """
    location = find(url)
    if isinstance(location, EmbeddedLocation) and not location.served():
        make_folder(location)
        confine(location.path, OutsidePaths(readable, writable))


def nearest_folder(path: Path) -> Path:
    """Return the folder `path`, or its nearest ancestor that exists."""
    path = path.absolute()
    return next(folder for folder in (path, *path.parents) if folder.is_dir())
