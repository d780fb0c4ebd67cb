"""QScanner as an engine: completes handshakes with the targets in a file, with firstflight's lists and rate.

The program must be installed: no package registry has its module. It builds from a checkout with Go 1.18.
"""

from __future__ import annotations

import csv
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from firstflight.egress.permitted import Permitted
from firstflight.errors import FirstflightError, InputError, Interrupted
from firstflight.host_names import NotAName, normalise
from firstflight.system import children, files

# Refills of the token bucket per second, if the rate permits.
_REFILLS = 10
LAST_S = 120.0
"""Seconds after the start of the last connection. QScanner waits as long as a server keeps one open."""


@dataclass(frozen=True)
class ScanOptions:
    """A scan's options. `folder` must be new and gets the files. `rate`: connections per second."""

    folder: Path
    rate: float = 50
    program: str = "qscanner"


class ScanTarget(NamedTuple):
    """An address, the name for SNI (may be empty) and a port."""

    ip: str
    domain: str
    port: int


def targets(path: Path) -> list[ScanTarget]:
    """Read a CSV file with the header `ip,domain,port`, as for `probe`. InputError with an invalid line."""
    with files.explain_os_errors(path), path.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        if rows.fieldnames is None or not {"ip", "domain"} <= set(rows.fieldnames):
            raise InputError(f"{path}: the first line must be the header ip,domain,port")
        return [_target(row, path, rows.line_num) for row in rows]


def _target(row: dict[str, str], path: Path, line: int) -> ScanTarget:
    import ipaddress

    try:
        address = ipaddress.ip_address((row["ip"] or "").strip())
        port = int(row.get("port") or 443)
        if not 0 < port < 65536:
            raise ValueError(f"{port} is no port")
    except (TypeError, ValueError) as error:
        raise InputError(f"{path}: line {line}: {error}; nothing was sent") from error
    domain = (row["domain"] or "").strip()
    try:
        return ScanTarget(str(address), domain and normalise(domain), port)
    except NotAName as error:
        raise InputError(f"{path}: line {line}: {error}; nothing was sent") from error


def write_input(listed: Iterable[ScanTarget], permitted: Permitted, path: Path) -> tuple[int, int]:
    """Write QScanner's input file with the targets that may be contacted. Return (written, blocked)."""
    written = blocked = 0
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("saddr", "hostname", "port"))
        for target in listed:
            if permitted.why_not(target.ip, target.domain) is not None:
                blocked += 1
                continue
            writer.writerow(target)
            written += 1
    return written, blocked


def arguments(scan: ScanOptions, listed: Path) -> list[str]:
    """Return QScanner's command line. Its bucket holds a tenth of a second, or one connection."""
    size = max(1, int(scan.rate / _REFILLS))
    refill_ms = max(1, round(1000 * size / scan.rate))
    return [
        *(scan.program, "-input", str(listed), "-output", str(scan.folder), "-http3", "-keylog"),
        *("-bucket-size", str(size), "-bucket-refill-duration", str(refill_ms)),
    ]


def run(scan: ScanOptions, listed: Path, count: int, last_s: float = LAST_S) -> None:
    """Run QScanner with `count` targets, at most `last_s` seconds longer than the rate needs for them.

    UsageError if it is missing, FirstflightError if it fails or does not end, Interrupted on Ctrl-C.
    """
    process = children.start(arguments(scan, listed), stdout=subprocess.DEVNULL)
    try:
        status = process.wait(count / scan.rate + last_s)
    except KeyboardInterrupt as error:
        children.stop(process)
        raise Interrupted(f"stopped by a signal: QScanner's output is in {scan.folder}") from error
    except subprocess.TimeoutExpired as error:
        children.stop(process)
        raise FirstflightError(
            f"{scan.program} did not end {last_s:g} s after the last connection, perhaps because a server "
            f"keeps one open: its output is in {scan.folder}, for `firstflight import qscanner`"
        ) from error
    if status:
        raise FirstflightError(f"{scan.program} ended with status {status}; its log is in {scan.folder}")
