"""Finds the store (FIRSTFLIGHT_STORE) and opens it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from firstflight.errors import UsageError
from firstflight.system.lock import locked
from store.address import secrets, served_address
from store.address.url import SCHEMES, ServerLocation, no_tables_message, parse
from store.base import QueryLimits, Store
from store.confine import process
from store.errors import StoreHeld

DATABASE = "firstflight"
DEFAULT = "chdb:./var/store"
WAIT_S = 30.0
# Possible content of a folder in which the engine has not finished its first start.
_STORE_FILES = frozenset(
    {
        *(served_address.LOCK, "access", "data", "metadata_dropped", "preprocessed_configs", "status"),
        *("store", "tmp", "user_defined", "user_files", "uuid"),
        "lost+found",  # of a file system that is mounted there
    }
)


@dataclass(frozen=True)
class EmbeddedLocation:
    """A chDB store in a folder."""

    path: Path

    @property
    def public_url(self) -> str:
        """The address for messages and reports."""
        return f"chdb:{self.path}"

    @property
    def empty(self) -> bool:
        """Whether no store was ever created there."""
        return not (self.path / "metadata").exists()

    def served(self) -> ServerLocation | None:
        """Return the `store serve` that holds the store now, if this user may connect to it."""
        return served_address.of(self.path, DATABASE)


Location = EmbeddedLocation | ServerLocation


def find(url: str | None = None) -> Location:
    """Return the location that `url` names.

    `None`: FIRSTFLIGHT_STORE, else the URL in the file FIRSTFLIGHT_STORE_FILE, else chdb:./var/store.
    """
    given = url or os.environ.get("FIRSTFLIGHT_STORE")
    if not given and os.environ.get("FIRSTFLIGHT_STORE_FILE"):
        given = secrets.first_line(Path(os.environ["FIRSTFLIGHT_STORE_FILE"]))
    given = given or DEFAULT
    scheme, _, rest = given.partition(":")
    if scheme in SCHEMES:
        return parse(given, DATABASE)
    if scheme == "chdb" and "?" in rest:
        raise UsageError(f"the store {given!r} has a question mark in its path, which chDB reads as options")
    if scheme == "chdb" and rest:
        return EmbeddedLocation(Path(rest).expanduser().absolute())
    # The message does not repeat the address: it may contain a password.
    raise UsageError(
        "the store's address is not valid: write FIRSTFLIGHT_STORE=chdb:PATH "
        "or clickhouse://USER:PASSWORD@HOST:PORT/DB"
    )


@contextmanager
def open_store(
    url: str | None = None, *, write: bool = False, wait_s: float = WAIT_S, limits: QueryLimits | None = None
) -> Iterator[Store]:
    """Open the store that `url` names (`None` as in `find`) until the end of the block.

    One process at a time can open an embedded store: `wait_s` limits the wait for another process. `write`
    creates the folder or the database if it is missing, and allows changes; otherwise the engine refuses
    them. `limits` apply to each query; on a server, for a user who may not change settings, the server's
    limits apply instead. Raises UsageError, StoreHeld, StoreError, StoreUnreachable.
    """
    location = find(url)
    if isinstance(location, EmbeddedLocation):
        # The holder may be a `store serve`, which accepts clients.
        location = location.served() or location
    if isinstance(location, ServerLocation):
        from store.backends.remote import ServerStore

        server = ServerStore(location, write=write, limits=limits)
        try:
            yield server
        finally:
            server.close()
        return
    if write:
        make_folder(location)
    elif location.empty:
        refuse_no_folder(location)
        raise UsageError(no_tables(location))
    with locked_store(location, wait_s):
        if not write:
            process.seal(location.path)
        # Imported late: the engine is large, and starts threads on import.
        from store.backends.embedded import EmbeddedStore

        store = EmbeddedStore(location.path, DATABASE, write=write, limits=limits)
        try:
            yield store
        finally:
            store.close()


def check_folder(location: EmbeddedLocation) -> None:
    """Raise UsageError if an embedded store is not in the folder and cannot be made there."""
    refuse_no_folder(location)
    _refuse_other_files(location)


def make_folder(location: EmbeddedLocation) -> None:
    """Create the folder of an embedded store if it is missing."""
    check_folder(location)
    try:
        # Parent folders follow the user's umask, without write access for others; the store is private.
        before = os.umask(0o077)
        os.umask(before | 0o002)
        try:
            location.path.parent.mkdir(parents=True, exist_ok=True)
            location.path.mkdir(mode=0o700, exist_ok=True)
            mode = location.path.stat().st_mode
            if mode & 0o002:  # created by an earlier version, or with umask 000
                location.path.chmod(mode & 0o7775)
        finally:
            os.umask(before)
    except OSError as error:
        raise UsageError(f"cannot create the store in {location.path}: {error.strerror}") from error


def _refuse_other_files(location: EmbeddedLocation) -> None:
    """Raise UsageError if a store would be created in a folder with other files."""
    if not location.empty or not location.path.is_dir():
        return
    others = sorted({path.name for path in location.path.iterdir()} - _STORE_FILES)
    if others:
        raise UsageError(
            f"the store cannot be in {location.path}: the folder holds other files ({', '.join(others[:3])}"
            f"{', ...' if len(others) > 3 else ''}); name an empty folder or one that does not exist"
        )


def refuse_no_folder(location: EmbeddedLocation) -> None:
    """Raise UsageError if the store's path, or one above it, exists and is not a folder."""
    for path in (location.path, *location.path.parents):
        if path.exists():
            if not path.is_dir():
                raise UsageError(
                    f"the store cannot be in {location.path}: {path} is not a folder; name another path"
                )
            return


def locked_store(location: EmbeddedLocation, wait_s: float) -> AbstractContextManager[None]:
    """Lock an embedded store in an existing folder; StoreHeld if others hold it for `wait_s` seconds.

    The engine refuses a second process too, but it cannot wait and does not name the first one.
    """
    return locked(location.path / served_address.LOCK, f"the store in {location.path}", wait_s, StoreHeld)


def no_tables(location: Location) -> str:
    """Return the message for a store without tables."""
    return no_tables_message(location.path if isinstance(location, EmbeddedLocation) else location.public_url)
