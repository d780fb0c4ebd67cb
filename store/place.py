"""Where the store is (FIRSTFLIGHT_STORE), and how it is opened."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from firstflight.errors import UsageError
from firstflight.system.lock import locked
from store import secrets, served_address
from store.base import Store
from store.confine import process
from store.errors import StoreHeld
from store.url import SCHEMES, ServerPlace, nothing_in, parse

DATABASE = "firstflight"
DEFAULT = "chdb:./var/store"
WAIT_S = 30.0
# What a folder may hold in which the engine has not finished its first start.
_STORE_FILES = frozenset(
    {
        *(served_address.LOCK, "access", "data", "metadata_dropped", "preprocessed_configs", "status"),
        *("store", "tmp", "user_defined", "user_files", "uuid"),
        "lost+found",  # of a file system that is mounted there
    }
)


@dataclass(frozen=True)
class EmbeddedPlace:
    """A chDB store in a folder."""

    path: Path

    @property
    def empty(self) -> bool:
        """Whether nothing was ever created there."""
        return not (self.path / "metadata").exists()

    def served(self) -> ServerPlace | None:
        """The `store serve` that holds it now, if this user may come in there."""
        return served_address.of(self.path, DATABASE)


Place = EmbeddedPlace | ServerPlace


def find(url: str | None = None) -> Place:
    """The place that `url` names. None: FIRSTFLIGHT_STORE, else the URL in the file FIRSTFLIGHT_STORE_FILE,
    else chdb:./var/store.
    """
    given = url or os.environ.get("FIRSTFLIGHT_STORE")
    if not given and os.environ.get("FIRSTFLIGHT_STORE_FILE"):
        given = secrets.first_line(Path(os.environ["FIRSTFLIGHT_STORE_FILE"]))
    given = given or DEFAULT
    scheme, _, rest = given.partition(":")
    if scheme in SCHEMES:
        return parse(given, DATABASE)
    if scheme == "chdb" and "?" in rest:
        raise UsageError(f"the store {given!r} has a question mark in its path, which chDB takes for options")
    if scheme == "chdb" and rest:
        return EmbeddedPlace(Path(rest).expanduser().absolute())
    # Not repeated here: what is misspelt may hold a password.
    raise UsageError(
        "the store's address is none: write FIRSTFLIGHT_STORE=chdb:PATH "
        "or clickhouse://USER:PASSWORD@HOST:PORT/DB"
    )


@contextmanager
def open_store(url: str | None = None, *, write: bool = False, wait_s: float = WAIT_S) -> Iterator[Store]:
    """Open the store that `url` names (None as in `find`) until the end of the block.

    An embedded store is opened alone: `wait_s` is how long to wait for another process that has it open.
    `write`: make the folder or the database if it is missing, and allow changes; otherwise the engine itself
    refuses them. Raises UsageError, StoreHeld, StoreError, StoreUnreachable.
    """
    place = find(url)
    if isinstance(place, EmbeddedPlace):
        # Who holds it may be a server of ours, which lets others in.
        place = place.served() or place
    if isinstance(place, ServerPlace):
        from store.remote import ServerStore

        server = ServerStore(place, write=write)
        try:
            yield server
        finally:
            server.close()
        return
    if write:
        made(place)
    elif place.empty:
        refuse_no_folder(place)
        raise UsageError(nothing_there(place))
    with held(place, wait_s):
        if not write:
            process.seal(place.path)
        # The engine is large, and starts threads when it is imported.
        from store.embedded import EmbeddedStore

        store = EmbeddedStore(place.path, DATABASE, write=write)
        try:
            yield store
        finally:
            store.close()


def made(place: EmbeddedPlace) -> None:
    """Make the folder of an embedded store if it is missing."""
    refuse_no_folder(place)
    _refuse_other_files(place)
    try:
        # The folders above as the user makes them, but not for all others to write; the store for its user.
        before = os.umask(0o077)
        os.umask(before | 0o002)
        try:
            place.path.parent.mkdir(parents=True, exist_ok=True)
            place.path.mkdir(mode=0o700, exist_ok=True)
            mode = place.path.stat().st_mode
            if mode & 0o002:  # made by an earlier version, or with the umask 000
                place.path.chmod(mode & 0o7775)
        finally:
            os.umask(before)
    except OSError as error:
        raise UsageError(f"cannot make the store in {place.path}: {error.strerror}") from error


def _refuse_other_files(place: EmbeddedPlace) -> None:
    """UsageError if a store would be created in a folder that holds files of something else."""
    if not place.empty or not place.path.is_dir():
        return
    others = sorted({path.name for path in place.path.iterdir()} - _STORE_FILES)
    if others:
        raise UsageError(
            f"the store cannot be in {place.path}: the folder holds other files ({', '.join(others[:3])}"
            f"{', ...' if len(others) > 3 else ''}); name an empty folder or one that does not exist"
        )


def refuse_no_folder(place: EmbeddedPlace) -> None:
    """UsageError if the store's path, or one above it, is something else than a folder."""
    for path in (place.path, *place.path.parents):
        if path.exists():
            if not path.is_dir():
                raise UsageError(
                    f"the store cannot be in {place.path}: {path} is no folder; name another path"
                )
            return


def held(place: EmbeddedPlace, wait_s: float) -> AbstractContextManager[None]:
    """Hold an embedded store, whose folder exists; StoreHeld if others keep it for `wait_s` seconds.

    The engine itself refuses a second process, but cannot wait and does not say who is there.
    """
    return locked(place.path / served_address.LOCK, f"the store in {place.path}", wait_s, StoreHeld)


def nothing_there(place: Place) -> str:
    """The sentence about a store without tables."""
    return nothing_in(place.path if isinstance(place, EmbeddedPlace) else place.shown)
