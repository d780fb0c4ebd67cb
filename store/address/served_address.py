"""The file STORE.address next to the folder STORE: the full address of the `store serve` that holds it.

The first line is an address for FIRSTFLIGHT_STORE_FILE; only the user who serves can read it (mode 0600). The
file remains after the server stops, and the next server reuses a generated password from it. The second line
names the server's process: the address is valid only while that process holds the store. The third line
`drawn` marks a generated password.
"""

from __future__ import annotations

import ipaddress
import os
import secrets
from pathlib import Path
from urllib.parse import quote

from firstflight.errors import UsageError
from firstflight.system import files, lock
from firstflight.system.network.tcp_listener import host_and_port
from store.address.url import ServerLocation, parse

LOCK = "firstflight.lock"  # in a store's folder, next to the engine's files
_PROCESS = "process "
_DRAWN = "drawn"


def path_of(store: Path) -> Path:
    """Return the path of the address file of the store in the folder `store`."""
    return store.with_name(f"{store.name}.address")


def of(store: Path, database: str) -> ServerLocation | None:
    """Return the server that holds `store` now, if this user may read its address."""
    lines = _lines(store)
    holder = lock.holder_pid(store / LOCK)
    if len(lines) < 2 or holder is None or lines[1] != f"{_PROCESS}{holder}":
        return None
    return parse(lines[0], database)


def password(store: Path, user: str) -> str:
    """Return the password that was generated for `user` at an earlier start, or a new one of 192 bits."""
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
    """Write the address of this process's server; UsageError if writing fails.

    `drawn`: `password` generated the password, and the next start may reuse it.

    With TLS, clients of this address do not verify the certificate, which has this machine's name for others.
    It is not necessary, because the process that answers at the address holds the store.
    """
    try:
        address = ipaddress.ip_address(host)
        if address.is_unspecified:
            host = "127.0.0.1" if address.version == 4 else "::1"
    except ValueError:
        pass
    who = f"{quote(user, safe='')}:{quote(secret, safe='')}@" if secret else ""
    url = f"clickhouse://{who}{host_and_port(host, port)}/{database}" + ("?secure=1&verify=0" if tls else "")
    path = path_of(store)
    try:
        files.write_secret(path, f"{url}\n{_PROCESS}{os.getpid()}\n" + f"{_DRAWN}\n" * drawn)
    except OSError as error:
        raise UsageError(f"cannot write the store's address to {path}: {error.strerror}") from error
    return path


def _lines(store: Path) -> list[str]:
    """Return the lines of the file; empty if it is missing, another user's, or accessible to others."""
    try:
        with path_of(store).open(encoding="utf-8") as file:
            status = os.fstat(file.fileno())
            if status.st_uid != os.geteuid() or status.st_mode & 0o077:
                return []
            return file.read(65536).splitlines()
    except (OSError, UnicodeDecodeError):
        return []
