"""Compares this machine's clock with the campaign's clock, or with the Date header from a web server.

A clock that is off by minutes puts rows into the wrong hour, and moves a vantage point's turn into another
vantage point's. The clock is not changed. The offset is written to clock.json and to each row, and a warning
is printed.
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
from firstflight.system.network.clock import SECOND_NS, Offset, by_date

HTTP_TIMEOUT_S = 10.0


def compare(run: Run, key: StageKey, centre_ns: int | None) -> str | None:
    """Compare the clocks and write the vantage point's clock.json. Return a warning or `None`.

    `centre_ns`: the campaign's time (ns since 1970) when it started this process. An unreachable reference
    also causes a warning; the offset in the rows is then null.
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
    """Return a warning if the clock is off by more than `warn_s` seconds, else `None`."""
    if not offset.exceeds(warn_s):
        return None
    return f"this machine's clock is {offset}: set it right (NTP); rows carry the offset in clock_offset_us"


def of(run: Run, key: StageKey) -> Offset | None:
    """Read a key's comparison; `None` without a file. Raise InputError if the file is invalid."""
    path = run.layout.clock(key)
    if not path.is_file():
        return None
    try:
        return Offset.model_validate(files.read_json(path))
    except ValidationError as error:
        raise InputError(f"{path} is not a comparison of clocks: {error.errors()[0]['msg']}") from error


def against_centre(centre_ns: int) -> Offset:
    """Compare with the time at which the campaign started this process.

    The time to start this process (an ssh connection, for example) makes the clock seem ahead by an unknown
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

    Sends the request to the host's first address, if `permitted` (default: no lists) permits all the host's
    addresses. Uses no proxy and follows no redirect. Raise FirstflightError if no answer arrives within
    HTTP_TIMEOUT_S, if it has no Date, or if an address or the name may not be contacted.
    """
    address = _checked_address(url, permitted or of_lists([], []))
    before_ns = time.time_ns()
    try:
        date = _date_of(url, address, ca_bundle)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise FirstflightError(
            f"the clock was not compared: {url} does not answer ({type(error).__name__}); "
            "see [clock] reference"
        ) from error
    offset = by_date(date, before_ns, time.time_ns(), url)
    if offset is None:
        raise FirstflightError(f"the clock was not compared: {url} gives no Date; see [clock] reference")
    return offset


def of_lists(blocklists: Sequence[Path], optouts: Sequence[Path]) -> Permitted:
    """Return the clock check's egress policy. A site may have a time server in a private network."""
    return Permitted(blocklists, optouts, allowable_networks())


def _checked_address(url: str, permitted: Permitted) -> str:
    """Return the address of the URL's host to contact. Raise FirstflightError if one may not be contacted."""
    host, not_asked = "", "the clock was not compared: "
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        infos = socket.getaddrinfo(host, parts.port, type=socket.SOCK_STREAM)
    except (OSError, ValueError) as error:
        raise FirstflightError(
            f"{not_asked}{url} does not answer ({type(error).__name__}); see [clock] reference"
        ) from error
    addresses = [str(info[4][0]) for info in infos]
    for address in addresses:
        try:
            reason = permitted.why_not(address.partition("%")[0], host)
        except NotTheLab:
            reason = "its address belongs to the lab, and this namespace does not"
        if reason is not None:
            raise FirstflightError(
                f"{not_asked}{host} ({address}) was not contacted, because {reason}; see [clock] reference"
            )
    return addresses[0]


def _date_of(url: str, address: str, ca_bundle: str | None) -> str | None:
    """Return the Date header of the answer to a HEAD request. OSError, HTTPException without an answer."""
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    port = parts.port or (443 if secure else 80)
    connection = http.client.HTTPConnection(parts.hostname or "", port, timeout=HTTP_TIMEOUT_S)
    # The name is not resolved again, because its address may have changed. `duplicate` is a second handle of
    # the connection, because TLS takes over `tcp`.
    with socket.create_connection((address, port), HTTP_TIMEOUT_S) as tcp, tcp.dup() as duplicate:
        # A socket's time-out applies to each read, and a server could send one byte at a time.
        timer = threading.Timer(HTTP_TIMEOUT_S, _end, [duplicate])
        timer.start()
        try:
            if secure:
                context = ssl.create_default_context(cafile=ca_bundle)
                connection.sock = context.wrap_socket(tcp, server_hostname=parts.hostname)
            else:
                connection.sock = tcp
            connection.request("HEAD", f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}")
            return connection.getresponse().getheader("Date")
        finally:
            timer.cancel()
            connection.close()


def _end(of_connection: socket.socket) -> None:
    with suppress(OSError):
        of_connection.shutdown(socket.SHUT_RDWR)


def _started_ns() -> int:
    """Return this process's start time by this machine's clock (proc(5): field 22 of stat, in ticks)."""
    fields = Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    started_s = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return time.time_ns() - int((time.clock_gettime(time.CLOCK_BOOTTIME) - started_s) * SECOND_NS)
