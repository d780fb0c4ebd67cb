"""Where the store is (FIRSTFLIGHT_STORE), and how it is opened."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from firstflight.errors import UsageError
from firstflight.store import lock
from firstflight.store.base import Store

DATABASE = "firstflight"
DEFAULT = "chdb:./var/store"
WAIT_S = 30.0


@dataclass(frozen=True)
class EmbeddedPlace:
    """A chDB store in a folder."""

    path: Path

    @property
    def empty(self) -> bool:
        """Whether nothing was ever created there."""
        return not (self.path / "metadata").exists()


def find(url: str | None = None) -> EmbeddedPlace:
    """The place that `url` names; None = FIRSTFLIGHT_STORE, else chdb:./var/store."""
    given = url or os.environ.get("FIRSTFLIGHT_STORE") or DEFAULT
    scheme, _, rest = given.partition(":")
    if scheme == "chdb" and "?" in rest:
        raise UsageError(f"the store {given!r} has a question mark in its path, which chDB takes for options")
    if scheme == "chdb" and rest:
        return EmbeddedPlace(Path(rest).expanduser().absolute())
    if scheme == "clickhouse":
        raise UsageError(
            "this version keeps its rows in an embedded store only: write FIRSTFLIGHT_STORE=chdb:PATH"
        )
    raise UsageError(f"the store {given!r} is none: write FIRSTFLIGHT_STORE=chdb:PATH")


@contextmanager
def open_store(url: str | None = None, *, write: bool = False, wait_s: float = WAIT_S) -> Iterator[Store]:
    """Open the store that `url` names (None as in `find`), alone, until the end of the block.

    `write`: make the folder if it is missing, and allow changes; otherwise the engine itself refuses them.
    `wait_s`: how long to wait for another process that has it open. Raises UsageError, StoreHeld, StoreError.
    """
    place = find(url)
    if write:
        try:
            place.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"cannot make the store in {place.path}: {error.strerror}") from error
    elif place.empty:
        raise UsageError(nothing_there(place))
    from firstflight.store.embedded import EmbeddedStore  # the engine is large; import it when it is needed

    with lock.held(place.path, wait_s):
        store = EmbeddedStore(place.path, DATABASE, write=write)
        try:
            yield store
        finally:
            store.close()


def nothing_there(place: EmbeddedPlace) -> str:
    """The sentence about a store without tables."""
    return (
        f"the store in {place.path} is empty: run a campaign, load record files (`firstflight load`), "
        "or make its tables with `firstflight db migrate`"
    )
