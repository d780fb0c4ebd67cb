"""`clickhouse://USER:PASSWORD@HOST:PORT/DB?options`: a ClickHouse server as the store."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from firstflight.errors import UsageError
from firstflight.system.network.tcp_listener import host_and_port
from store.address import secrets

SCHEMES = ("clickhouse", "clickhouses")
PORT, SECURE_PORT = 9000, 9440

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_METHODS = ("lz4", "zstd")
_PARTS = re.compile(
    r"[a-z]+://[^/?#]*(?P<path>[^?#]*)(?:\?(?P<query>[^#]*))?(?:#(?P<fragment>.*))?", re.DOTALL
)


@dataclass(frozen=True)
class ServerLocation:
    """A server, or a member of `cluster`, which has several shards if `sharded`. Times are in seconds."""

    host: str
    port: int
    database: str
    user: str = "default"
    password: str = field(default="", repr=False)
    cluster: str | None = None
    sharded: bool = False
    secure: bool = False
    verify: bool = True
    ca_certs: str | None = None
    compression: str = "lz4"
    connect_timeout: float = 10.0
    send_receive_timeout: float = 300.0
    retry_for: float = 60.0

    @property
    def public_url(self) -> str:
        """The address for messages, without user and password."""
        return f"clickhouse://{host_and_port(self.host, self.port)}/{self.database}"


def parse(url: str, database: str) -> ServerLocation:
    """Parse a server's URL; `database` is the default. UsageError never repeats the URL."""
    if _is_cut(url):
        raise UsageError(
            "the store's address has an @ after a /, ? or #, so its password ends too early: write these "
            "characters of the password as %2F, %3F and %23, or name a file by the option password_file"
        )
    try:
        split = urlsplit(url)
        host, port = split.hostname, split.port
    except ValueError as error:
        raise UsageError(f"the store's address cannot be read: {_plain(error)}") from error
    if not host:
        raise UsageError("the store's address names no host: write clickhouse://USER:PASSWORD@HOST:PORT/DB")
    named = unquote(split.path.strip("/")) or database
    given: dict[str, Any] = {"database": _identifier(named, "database")}
    if split.username:
        given["user"] = unquote(split.username)
    if split.password:
        given["password"] = unquote(split.password)
    given["secure"] = split.scheme == "clickhouses"
    for name, value in parse_qsl(split.query, keep_blank_values=True):
        if name == "password_file":
            given["password"] = secrets.first_line(Path(value).expanduser())
        elif name in _OPTIONS:
            given[name] = _OPTIONS[name](value, name)
        else:
            raise UsageError(
                f"the store's address has the unknown option {name!r}; the options are: "
                + ", ".join(sorted([*_OPTIONS, "password_file"]))
            )
    if given.get("sharded") and "cluster" not in given:
        raise UsageError("the store's option sharded needs the option cluster, which names the cluster")
    return ServerLocation(host, port or (SECURE_PORT if given["secure"] else PORT), **given)


def no_tables_message(where: object) -> str:
    """Return the message for a store without tables."""
    return (
        f"the store in {where} is empty: run a campaign, load record files (`firstflight load`), "
        "or create its tables with `firstflight db migrate`"
    )


def _is_cut(url: str) -> bool:
    """Return whether user or password have a character that closes this part of a URL (RFC 3986 3.2.1)."""
    split = _PARTS.fullmatch(url)
    if split is None:
        return False
    unknown = [
        name + value
        for name, value in parse_qsl(split["query"] or "", keep_blank_values=True)
        if name not in (*_OPTIONS, "password_file")
    ]
    return split["fragment"] is not None or any("@" in part for part in [split["path"], *unknown])


def _identifier(value: str, name: str) -> str:
    if not _NAME.fullmatch(value):
        raise UsageError(f"the store's {name} {value!r} is not a valid name: use letters, digits and _")
    return value


def _switch(value: str, name: str) -> bool:
    if value.lower() not in ("0", "1", "false", "true"):
        raise UsageError(f"the store's option {name} is 0 or 1, not {value!r}")
    return value.lower() in ("1", "true")


def _seconds(value: str, name: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < 86_400:
        raise UsageError(f"the store's option {name} is a number of seconds above 0, not {value!r}")
    return seconds


def _method(value: str, name: str) -> str:
    if value not in _METHODS:
        raise UsageError(f"the store's option {name} is lz4 or zstd, not {value!r}")
    return value


def _file(value: str, name: str) -> str:
    path = Path(value).expanduser()
    if not path.is_file():
        raise UsageError(f"the store's option {name} names {path}, which is not a file")
    return str(path)


_OPTIONS: dict[str, Callable[[str, str], Any]] = {
    "cluster": _identifier,
    "sharded": _switch,
    "secure": _switch,
    "verify": _switch,
    "ca_certs": _file,
    "compression": _method,
    "connect_timeout": _seconds,
    "send_receive_timeout": _seconds,
    "retry_for": _seconds,
}


def _plain(error: ValueError) -> str:
    """Return a URL's fault, without the part of the URL that urllib quotes."""
    return str(error).split(":")[0].split("'")[0].strip()
