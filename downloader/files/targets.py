"""The files to download: a list of URLs with addresses, validated line by line."""

from __future__ import annotations

import csv
import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from firstflight.errors import InputError

_LONGEST_URL = 2000
_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*", re.ASCII)
# Visible ASCII. A URL must percent-encode all other characters (RFC 3986 2.1).
_PATH = re.compile(r"[\x21-\x7e]*", re.ASCII)


@dataclass(frozen=True)
class Resolved:
    """A name's second resolution, just before its downloads.

    `drawn_ip`: the address before, empty if there was none. `at_ns`: when the query was sent (UTC). `status`:
    as in dns_answer.
    """

    drawn_ip: str
    at_ns: int
    status: str


@dataclass(frozen=True)
class Target:
    """One file. `ip` is empty if the name has no address. `line`: the line in the list, from 1.

    `domain` is the name for which the file was found. `host` is the host in the URL. `resolved` is `None` if
    the name was not resolved again. `target_set`: tcp, quic or both; `None` if the draw used no survey.
    """

    line: int
    url: str
    domain: str
    host: str
    ip: str
    port: int
    path: str
    resolved: Resolved | None = None
    target_set: str | None = None

    @property
    def drawn_ip(self) -> str:
        """The address when the target was drawn; empty if there was none."""
        return self.ip if self.resolved is None else self.resolved.drawn_ip


@dataclass(frozen=True)
class RejectedLine:
    """A line that is not used, and the reason."""

    line: int
    reason: str


def of(line: int, url: str, ip: str, domain: str = "") -> Target:
    """Return the target of a URL and an address. `domain` defaults to the URL's host.

    Raise ValueError with the fault.
    """
    url, ip = url.strip(), ip.strip()
    if len(url) > _LONGEST_URL:
        raise ValueError(f"the URL has more than {_LONGEST_URL} characters")
    if not _PATH.fullmatch(url):
        raise ValueError(f"{url!r} has characters that a URL cannot hold")
    parts = urlsplit(url)
    if parts.scheme != "https":
        raise ValueError(f"{url!r} does not begin with https://")
    if parts.username is not None or parts.password is not None:
        raise ValueError(f"{url!r} names a user")
    name = (parts.hostname or "").rstrip(".")
    if not _NAME.fullmatch(name) or name.rpartition(".")[2].isdecimal():
        raise ValueError(f"{url!r} has no host name")
    port = parts.port
    if port == 0:
        raise ValueError(f"{url!r} has port 0")
    if ip:
        # The canonical text of the address: the client compares texts.
        ip = str(ipaddress.ip_address(ip))
        if "%" in ip:
            raise ValueError(f"{ip!r} names an interface")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    authority = name if port in (None, 443) else f"{name}:{port}"
    return Target(line, f"https://{authority}{path}", domain or name, name, ip, port or 443, path)


def read(path: Path) -> Iterator[Target | RejectedLine]:
    """Yield the targets and the rejected lines in a CSV file with header `url,ip`, in order.

    The file is UTF-8, with or without a byte order mark. Further columns are ignored. A duplicate name and
    address is rejected, because an address gets only one run of downloads. Raise InputError if the file or
    the header cannot be read.
    """
    known: set[tuple[str, str]] = set()
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file, restval="", strict=True)
            if not {"url", "ip"} <= set(rows.fieldnames or ()):
                raise InputError(f"{path}, line 1: expected the header url,ip")
            for row in rows:
                line = rows.line_num
                try:
                    target = of(line, row["url"], row["ip"])
                except ValueError as error:
                    yield RejectedLine(line, str(error))
                    continue
                name = (target.domain, target.ip)
                if name in known:
                    yield RejectedLine(line, f"{target.domain} at {target.ip or 'no address'} appears twice")
                    continue
                known.add(name)
                yield target
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"cannot read {path}: {error}") from error
