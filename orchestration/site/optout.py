"""The site's opt-out list: offered by the centre, followed by vantage points.

The centre's entries are in the file of FIRSTFLIGHT_OPTOUT (`firstflight optout add`) and in the files that
`probe.optout` of site.toml, watch.toml or downloads.toml names. A vantage point requests the whole list every
few seconds (`follow`). It keeps a copy, and next to it the time of the last confirmation; senders read both
(firstflight/egress/current.py). docs/design/0040 gives the reasons.
"""

from __future__ import annotations

import secrets
import tomllib
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from firstflight.egress import current, lists
from firstflight.egress.lists import Range
from firstflight.errors import FirstflightError, InputError, UsageError
from firstflight.system import files, lock
from orchestration.site import centre_token
from orchestration.site.centre_client import SOON_S, CentreClient, CentreUnreachable
from orchestration.site.site import DOWNLOADS_FILE, FILE, WATCH_FILE
from orchestration.site.vantage_points import site_folder

if TYPE_CHECKING:
    import requests

EVERY_S = 2.0
"""Seconds between requests. With both time-outs of a request, the total is below the promised ten seconds."""


def own_list() -> Path:
    """Return the path of this machine's own list. UsageError if no list is set, or if it is a copy."""
    value = current.machine_list()
    if value is None:
        raise UsageError(f"{current.VARIABLE} names no list: set it to the file of the site's opt-out list")
    if value.startswith(current.FOLLOWED):
        raise UsageError(f"{current.VARIABLE} is a copy of the centre's list: add entries there")
    return Path(value)


def add(entries: Iterable[str], note: str = "") -> list[str]:
    """Add entries to this machine's list, with the date and a note; return the new ones.

    If an entry is not a name, address, network or range, raises UsageError and adds no entries.
    """
    path = own_list()
    distinct = list(dict.fromkeys(entries))
    for entry in distinct:
        try:
            if lists.content(entry) != entry:
                raise ValueError("is not one entry")
            lists.entry_of(entry)
        except ValueError as error:
            raise UsageError(f"{entry!r} {error}; nothing was added") from error
    with lock.locked(path.with_name(f"{path.name}.lock"), "the opt-out list", wait_s=30):
        try:
            text = path.read_text(encoding="utf-8") if path.exists() else ""
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path} cannot be read: {error}; nothing was added") from error
        present = {lists.content(line) for line in text.split("\n")}
        new = [entry for entry in distinct if entry not in present]
        if new:
            comment = " ".join(f"{datetime.now(UTC):%Y-%m-%d} {note}".split())
            lines = "".join(f"{entry}  # {comment}\n" for entry in new)
            files.write_text(path, text + ("\n" if text and not text.endswith("\n") else "") + lines)
    return new


def offered() -> list[str]:
    """Return all entries of the site as of now, in a canonical form, sorted; InputError if a list is broken.

    A broken list is not offered. Vantage points then stop sending, because they cannot confirm their copies.
    """
    paths = [own_list(), *_of_settings()]
    return sorted({_text(entry) for path in paths for entry in lists.checked(path, names_too=True)})


def _of_settings() -> list[Path]:
    paths: list[Path] = []
    for name in (FILE, WATCH_FILE, DOWNLOADS_FILE):
        path = site_folder() / name
        if not path.is_file():
            continue
        try:
            probe = tomllib.loads(path.read_text(encoding="utf-8")).get("probe", {})
            # Resolve paths as the settings do, so that runs use the same lists.
            paths += [
                Path(path.resolve().parent, Path(listed).expanduser()) for listed in probe.get("optout", [])
            ]
        except (OSError, ValueError, TypeError, AttributeError, RuntimeError) as error:
            raise InputError(f"{path} does not say which lists are in force: {error}") from error
    return paths


def _text(entry: Range | str) -> str:
    """Return an entry as text that every reader of lists parses in the same way."""
    if isinstance(entry, str):
        return f"*.{entry}"
    first, last = entry
    return str(first) if first == last else f"{first}-{last}"


class Follower:
    """Keeps a copy of the centre's list at `path`, and next to it the time of the last confirmation.

    `centre` is the centre's URL, `secret` returns the workers' secret, `say` is called with messages.
    """

    def __init__(
        self, centre: str, secret: Callable[[], str], path: Path, say: Callable[[str], None]
    ) -> None:
        self._centre, self._secret, self._path, self._say = centre, secret, path, say
        self._said: str | None = None

    def follow(self, ended: Event) -> None:
        """Request the list until `ended` is set; report each fault once, and continue."""
        import requests

        while not ended.is_set():
            try:
                with requests.Session() as session:
                    while not ended.is_set():
                        self.once(session)
                        ended.wait(EVERY_S)
            except (FirstflightError, OSError) as error:
                self._tell(f"{error}; the list is not confirmed")
                ended.wait(EVERY_S)

    def once(self, session: requests.Session) -> None:
        """Request the list once; on CentreUnreachable, InputError or OutputError it stays unconfirmed."""
        confirmed = current.confirmation()  # taken before the request: later entries are not in the answer
        nonce = secrets.token_hex(16)
        source = CentreClient(
            session, self._centre, "", lambda: centre_token.sign_optout(self._secret()), SOON_S
        )
        entries = source.opted_out(nonce)
        for entry in entries:
            try:
                lists.entry_of(entry)
            except ValueError as error:
                raise CentreUnreachable(f"the centre's opt-out list has {entry!a}, which {error}") from error
        text = "".join(f"{entry}\n" for entry in entries)
        previous = _text_of(self._path)
        if previous != text:
            # A missing copy has no entries: a user removes it to forget entries.
            ever = (
                set()
                if previous is None
                else {*previous.splitlines(), *(_text_of(self._ever) or "").splitlines()}
            )
            self._refuse_loss(ever, entries)
            files.write_text(self._ever, "".join(f"{entry}\n" for entry in sorted(ever.union(entries))))
            files.write_text(self._path, text)
            self._say(f"{len(entries)} entries")
        files.write_text(current.confirmed_file(self._path), confirmed, lasting=False)
        self._tell(None)

    @property
    def _ever(self) -> Path:
        """The file of all entries that the copy ever had, so that a list cannot lose them step by step."""
        return self._path.with_name(f"{self._path.name}.ever")

    def _refuse_loss(self, ever: set[str], entries: Iterable[str]) -> None:
        """Raise CentreUnreachable if most entries are missing, for example at a newly installed centre."""
        lost = len(ever.difference(entries))
        if 2 * lost > len(ever):
            raise CentreUnreachable(
                f"the centre's opt-out list lacks {lost} of the {len(ever)} entries that {self._path} had: "
                "restore them there, or remove this file here to forget them"
            )

    def _tell(self, fault: str | None) -> None:
        if fault != self._said:
            self._say(fault or "the list is confirmed again")
        self._said = fault


def _text_of(path: Path) -> str | None:
    """Return a file's text; `None` if the file does not exist. InputError if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}; repair it, or remove it to start again") from error
