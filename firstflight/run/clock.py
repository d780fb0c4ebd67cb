"""Is this machine's clock right? Compared with the campaign's, or with the Date that a web server gives.

A clock that is off by minutes puts rows into the wrong hour and a vantage point's turn into another's.
Nothing is set here: the offset is written down beside the stage (clock.json) and in every row, and told to
people.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from firstflight.errors import FirstflightError
from firstflight.layout import StageKey
from firstflight.run.run import Run
from firstflight.system import files
from firstflight.system.clock import SECOND_NS, Offset, by_date

HTTP_TIMEOUT_S = 10.0


def compare(run: Run, key: StageKey, centre_ns: int | None) -> str | None:
    """Compare, write clock.json beside the stages of that vantage point; give the warning there is, if any.

    `centre_ns` is the campaign's time (ns since 1970) when it started this process. A reference that cannot
    be reached is a warning as well: the rows then say that nothing was compared.
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
    """A sentence if the clock is off by more than `warn_s` seconds."""
    if not offset.exceeds(warn_s):
        return None
    return f"the clock here is {offset}: set it right (NTP); rows carry the offset in clock_offset_us"


def of(run: Run, key: StageKey) -> Offset | None:
    """The comparison that was made; None if none was."""
    path = run.layout.clock(key)
    return Offset.model_validate(files.read_json(path)) if path.is_file() else None


def against_centre(centre_ns: int) -> Offset:
    """Against the time at which the campaign started this process.

    The way there (an ssh connection, say) makes the clock look ahead by what it takes: the uncertainty is not
    known.
    """
    return Offset(
        offset_us=(_started_ns() - centre_ns) // 1000,
        uncertainty_us=None,
        reference="the campaign's clock",
        compared_at_ns=time.time_ns(),
    )


def against_http(url: str, ca_bundle: str | None) -> Offset:
    """Against the Date header (RFC 9110 6.6.1, whole seconds) of the answer to a HEAD request.

    FirstflightError with one sentence if there is no answer, or none with a Date.
    """
    import requests

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


def _started_ns() -> int:
    """When this process began, by this machine's clock (proc(5): field 22 of stat, ticks since boot)."""
    fields = Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    started_s = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return time.time_ns() - int((time.clock_gettime(time.CLOCK_BOOTTIME) - started_s) * SECOND_NS)
