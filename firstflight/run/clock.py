"""Compares this machine's clock with the campaign's, or with the Date header of a web server.

A clock that is off by minutes puts rows into the wrong hour and a vantage point's turn into another's. The
clock is not changed: the offset is written to clock.json and to every row, and a warning is printed.
"""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import ValidationError

from firstflight.egress.permitted import Permitted
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
            offset = against_http(settings.reference, str(ca_bundle) if ca_bundle else None)
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
    return f"the clock here is {offset}: set it right (NTP); rows carry the offset in clock_offset_us"


def of(run: Run, key: StageKey) -> Offset | None:
    """Read the comparison of a key; None if there is none. InputError if its file is broken."""
    path = run.layout.clock(key)
    if not path.is_file():
        return None
    try:
        return Offset.model_validate(files.read_json(path))
    except ValidationError as error:
        raise InputError(f"{path} is no comparison of clocks: {error.errors()[0]['msg']}") from error


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


def against_http(url: str, ca_bundle: str | None) -> Offset:
    """Compare with the Date header (RFC 9110 6.6.1, whole seconds) of the answer to a HEAD request.

    FirstflightError if there is no answer, or none with a Date, or if the host is on a list.
    """
    import requests

    _check_reference(url)
    before = time.time_ns()
    try:
        answer = requests.head(
            url, timeout=HTTP_TIMEOUT_S, allow_redirects=False, verify=ca_bundle if ca_bundle else True
        )
    except requests.RequestException as error:
        raise FirstflightError(
            f"the clock was not compared: {url} does not answer ({type(error).__name__}); "
            "see [clock] reference"
        ) from error
    offset = by_date(answer.headers.get("Date"), before, time.time_ns(), url)
    if offset is None:
        raise FirstflightError(f"the clock was not compared: {url} gives no Date; see [clock] reference")
    return offset


def _check_reference(url: str) -> None:
    """Raise FirstflightError if the host of `url` has an address that is never contacted.

    A private address may be asked: a site may have a time server of its own.
    """
    host = urlsplit(url).hostname or ""
    try:
        found = {str(one[4][0]) for one in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError):
        return  # the request says so
    permitted = Permitted([], [])
    for address in found:
        if permitted.is_listed(address.partition("%")[0]):
            raise FirstflightError(
                f"the clock was not compared: {host} is not asked, because {address} is on a list or of a "
                "platform's services; see [clock] reference"
            )


def _started_ns() -> int:
    """Return the start of this process by this machine's clock (proc(5): field 22 of stat, in ticks)."""
    fields = Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    started_s = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return time.time_ns() - int((time.clock_gettime(time.CLOCK_BOOTTIME) - started_s) * SECOND_NS)
