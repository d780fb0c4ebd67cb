"""Confines a command that opens the embedded store, and no others: before its first thread, for good.

Expressions that somebody else put into the store (a column's default, a view, a dictionary's source) are
evaluated by whoever opens it, with that user's rights; here that reaches no other file and no host.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from store.confine.process import Beside, confine
from store.location import EmbeddedPlace, find, made


def asking(url: str | None = None, *, readable: Sequence[Path] = (), added_to: Sequence[Path] = ()) -> None:
    """Leave this process the embedded store, which it only reads, reading below `readable`, and making
    files below the folders `added_to`.

    Nothing happens if a server is asked, which needs its connection: the engine here sees answers only.
    """
    place = find(url)
    if isinstance(place, EmbeddedPlace) and not place.empty and not place.served():
        confine(place.path, Beside(readable=readable, added_to=added_to), only_reads=True)


def changing(url: str | None = None, *, readable: Sequence[Path] = (), writable: Sequence[Path] = ()) -> None:
    """Leave this process the embedded store, whose folder is made if it is missing, reading below
    `readable`, and everything below `writable`. Nothing happens if the store is on a server.
    """
    place = find(url)
    if isinstance(place, EmbeddedPlace) and not place.served():
        made(place)
        confine(place.path, Beside(readable, writable))


def nearest_folder(path: Path) -> Path:
    """The folder `path`, or the first one above it that there is."""
    path = path.absolute()
    return next(one for one in (path, *path.parents) if one.is_dir())
