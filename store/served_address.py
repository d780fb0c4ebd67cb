"""The file STORE.address beside the folder STORE: the whole address of the `store serve` that holds it.

Its first line is what FIRSTFLIGHT_STORE_FILE wants; only the user who serves can read it (mode 0600). It
stays when the server ends, and the next one takes its password from there if it was drawn. The second line
names the server's process: the address is used only while that one holds the store. The third says that the
password was drawn.
"""

from __future__ import annotations

import ipaddress
import os
import secrets
from pathlib import Path
from urllib.parse import quote

from firstflight.errors import UsageError
from firstflight.system import lock
from store.url import ServerPlace, parse

LOCK = "firstflight.lock"  # of a store, beside the engine's files
_PROCESS = "process "
_DRAWN = "drawn"


def path_of(store: Path) -> Path:
    """The file of the store in the folder `store`."""
    return store.with_name(f"{store.name}.address")


def of(store: Path, database: str) -> ServerPlace | None:
    """The server that holds `store` now, if this user may know its address."""
    lines = _lines(store)
    holder = lock.holder(store / LOCK)
    if len(lines) < 2 or holder is None or lines[1] != f"{_PROCESS}{holder}":
        return None
    return parse(lines[0], database)


def password(store: Path, user: str) -> str:
    """The password that was drawn for `user` at an earlier start, or a new one of 192 bits."""
    lines = _lines(store)
    if _DRAWN in lines[2:]:
        try:
            known = parse(lines[0], "firstflight")
        except UsageError:
            known = None
        if known is not None and known.user == user and known.password:
            return known.password
    return secrets.token_urlsafe(24)


def write(
    store: Path,
    host: str,
    port: int,
    database: str,
    user: str,
    secret: str | None,
    *,
    tls: bool,
    drawn: bool = False,
) -> Path:
    """Write the address of this process's server; UsageError if that cannot be done.

    `drawn`: the password is one of `password`, which the next start may take again.

    With TLS the certificate is not checked: it is for names by which others know this machine, and what
    answers at the address is the process that holds the store.
    """
    try:
        address = ipaddress.ip_address(host)
        if address.is_unspecified:
            host = "127.0.0.1" if address.version == 4 else "::1"
    except ValueError:
        pass
    host = f"[{host}]" if ":" in host else host
    who = f"{quote(user, safe='')}:{quote(secret, safe='')}@" if secret else ""
    url = f"clickhouse://{who}{host}:{port}/{database}" + ("?secure=1&verify=0" if tls else "")
    path = path_of(store)
    part = path.with_name(f"{path.name}.part")
    try:
        part.unlink(missing_ok=True)
        with os.fdopen(
            os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "w"
        ) as file:
            file.write(f"{url}\n{_PROCESS}{os.getpid()}\n" + f"{_DRAWN}\n" * drawn)
        part.replace(path)
    except OSError as error:
        raise UsageError(f"cannot write the store's address to {path}: {error.strerror}") from error
    return path


def _lines(store: Path) -> list[str]:
    """The lines of the file; none if it is missing, another user's, or open to others."""
    try:
        with path_of(store).open(encoding="utf-8") as file:
            status = os.fstat(file.fileno())
            if status.st_uid != os.geteuid() or status.st_mode & 0o077:
                return []
            return file.read(65536).splitlines()
    except (OSError, UnicodeDecodeError):
        return []
