"""Compares this machine's clock with the campaign's, or with the Date header of a web server.

A clock that is off by minutes puts rows into the wrong hour and a vantage point's turn into another's. The
clock is not changed: the offset is written to clock.json and to every row, and a warning is printed.
"""

from __future__ import annotations

import http.client
import os
import socket
import ssl
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import ValidationError

from firstflight.egress.lab import NotTheLab
from firstflight.egress.permitted import Permitted, allowable_networks
from firstflight.errors import FirstflightError, InputError
from firstflight.layout import StageKey
from firstflight.run.run import Run
from firstflight.system import files
from firstflight.system.clock import SECOND_NS, Offset, by_date

HTTP_TIMEOUT_S = 10.0


def compare(run: Run, key: StageKey, centre_ns: int | None) -> str | None:
    """Compare the clocks and write clock.json of that vantage point; return a warning or None.

    `centre_ns` is the campaign's time (ns since 1970) when it started this process. An unreachable reference
    is a warning too; the offset in the rows is then null.
    """
    settings = run.settings.clock
    path = run.layout.clock(key)
    try:
        if settings.reference is not None:
            ca_bundle = run.settings.network.ca_bundle
            probe = run.settings.probe
            offset = against_http(
                settings.reference,
                str(ca_bundle) if ca_bundle else None,
                of_lists(probe.blocklist, probe.optout),
            )
        elif centre_ns is not None:
            offset = against_centre(centre_ns)
        else:
            path.unlink(missing_ok=True)
            return None
    except FirstflightError as error:
        path.unlink(missing_ok=True)
        return str(error)
    files.write_json(path, offset.model_dump())
    return warning(offset, settings.warn_s)


def warning(offset: Offset, warn_s: float) -> str | None:
    """Return a warning if the clock is off by more than `warn_s` seconds, else None."""
    if not offset.exceeds(warn_s):
        return None
    return f"this machine's clock is {offset}: set it right (NTP); rows carry the offset in clock_offset_us"


def of(run: Run, key: StageKey) -> Offset | None:
    """Read the comparison of a key; None if there is none. InputError if its file is broken."""
    path = run.layout.clock(key)
    if not path.is_file():
        return None
    try:
        return Offset.model_validate(files.read_json(path))
    except ValidationError as error:
        raise InputError(f"{path} is not a comparison of clocks: {error.errors()[0]['msg']}") from error


def against_centre(centre_ns: int) -> Offset:
    """Compare with the time at which the campaign started this process.

    The time to start this process (an ssh connection, for example) makes the clock seem ahead, by an unknown
    amount.
    """
    return Offset(
        offset_us=(_started_ns() - centre_ns) // 1000,
        uncertainty_us=None,
        reference="the campaign's clock",
        compared_at_ns=time.time_ns(),
    )


def against_http(url: str, ca_bundle: str | None, permitted: Permitted | None = None) -> Offset:
    """Compare with the Date header (RFC 9110 6.6.1, whole seconds) of the answer to a HEAD request.

    The request goes to the first address of the host if `permitted` (default: no lists) permits all of its
    addresses. No proxy is used and no redirect is followed. FirstflightError if there is no answer within
    HTTP_TIMEOUT_S, or none with a Date, or if an address or the name may not be contacted.
    """
    address = _checked_address(url, permitted or of_lists([], []))
    before = time.time_ns()
    try:
        date = _date_of(url, address, ca_bundle)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise FirstflightError(
            f"the clock was not compared: {url} does not answer ({type(error).__name__}); "
            "see [clock] reference"
        ) from error
    offset = by_date(date, before, time.time_ns(), url)
    if offset is None:
        raise FirstflightError(f"the clock was not compared: {url} gives no Date; see [clock] reference")
    return offset


def of_lists(blocklists: Sequence[Path], optouts: Sequence[Path]) -> Permitted:
    """Return the egress policy of the clock check: a site may have a time server in a private network."""
    return Permitted(blocklists, optouts, allowable_networks())


def _checked_address(url: str, permitted: Permitted) -> str:
    """Return the address of the URL's host to contact. FirstflightError if one may not be contacted."""
    host, not_asked = "", "the clock was not compared: "
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        found = socket.getaddrinfo(host, parts.port, type=socket.SOCK_STREAM)
    except (OSError, ValueError) as error:
        raise FirstflightError(
            f"{not_asked}{url} does not answer ({type(error).__name__}); see [clock] reference"
        ) from error
    addresses = [str(one[4][0]) for one in found]
    for address in addresses:
        try:
            why = permitted.why_not(address.partition("%")[0], host)
        except NotTheLab:
            why = "its address belongs to the lab, and this namespace does not"
        if why is not None:
            raise FirstflightError(
                f"{not_asked}{host} ({address}) was not contacted, because {why}; see [clock] reference"
            )
    return addresses[0]


def _date_of(url: str, address: str, ca_bundle: str | None) -> str | None:
    """Return the Date header of the answer to a HEAD request to `address`. OSError, HTTPException: none."""
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    port = parts.port or (443 if secure else 80)
    connection = http.client.HTTPConnection(parts.hostname or "", port, timeout=HTTP_TIMEOUT_S)
    # The name is not looked up again: it could have another address now.
    # `same` is another handle of the connection, because TLS takes `plain` over.
    with socket.create_connection((address, port), HTTP_TIMEOUT_S) as plain, plain.dup() as same:
        # The time-out of a socket is for each read: a server could send one byte at a time.
        over = threading.Timer(HTTP_TIMEOUT_S, _end, [same])
        over.start()
        try:
            if secure:
                context = ssl.create_default_context(cafile=ca_bundle)
                connection.sock = context.wrap_socket(plain, server_hostname=parts.hostname)
            else:
                connection.sock = plain
            connection.request("HEAD", f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}")
            return connection.getresponse().getheader("Date")
        finally:
            over.cancel()
            connection.close()


def _end(of_connection: socket.socket) -> None:
    with suppress(OSError):
        of_connection.shutdown(socket.SHUT_RDWR)


def _started_ns() -> int:
    """Return the start of this process by this machine's clock (proc(5): field 22 of stat, in ticks)."""
    fields = Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    started_s = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return time.time_ns() - int((time.clock_gettime(time.CLOCK_BOOTTIME) - started_s) * SECOND_NS)
