"""QScanner as engine: completes handshakes with the targets of a file, under firstflight's lists and rate.

The program has to be there: no package registry has its module; from a checkout it builds with Go 1.18.
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

# Refills of its bucket a second, where the rate allows it.
_REFILLS = 10


@dataclass(frozen=True)
class Scan:
    """What is asked for: `folder` (must be new) gets its files; `rate` in connections a second."""

    folder: Path
    rate: float = 50
    program: str = "qscanner"


class Target(NamedTuple):
    """An address, the name for SNI (may be empty) and a port."""

    ip: str
    domain: str
    port: int


def targets(path: Path) -> list[Target]:
    """Read a CSV file with the header `ip,domain,port`, as for `probe`. InputError names the wrong line."""
    with files.explain_os_errors(path), path.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        if rows.fieldnames is None or not {"ip", "domain"} <= set(rows.fieldnames):
            raise InputError(f"{path}: the first line must be the header ip,domain,port")
        return [_target(row, path, rows.line_num) for row in rows]


def _target(row: dict[str, str], path: Path, line: int) -> Target:
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
        return Target(str(address), domain and normalise(domain), port)
    except NotAName as error:
        raise InputError(f"{path}: line {line}: {error}; nothing was sent") from error


def write_input(listed: Iterable[Target], permitted: Permitted, path: Path) -> tuple[int, int]:
    """Write QScanner's input file of the targets that may be contacted; return how many, and how many not."""
    written = blocked = 0
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(("saddr", "hostname", "port"))
        for target in listed:
            if permitted.why_not(target.ip, target.domain) is not None:
                blocked += 1
                continue
            out.writerow(target)
            written += 1
    return written, blocked


def arguments(scan: Scan, listed: Path) -> list[str]:
    """Return QScanner's argument list: a bucket that holds a tenth of a second, or one connection."""
    size = max(1, int(scan.rate / _REFILLS))
    refill_ms = max(1, round(1000 * size / scan.rate))
    return [
        *(scan.program, "-input", str(listed), "-output", str(scan.folder), "-http3", "-keylog"),
        *("-bucket-size", str(size), "-bucket-refill-duration", str(refill_ms)),
    ]


def run(scan: Scan, listed: Path) -> None:
    """Run it to its end. UsageError if it is missing, FirstflightError if it fails, Interrupted on Ctrl-C."""
    process = children.start(arguments(scan, listed), stdout=subprocess.DEVNULL)
    try:
        status = process.wait()
    except KeyboardInterrupt as error:
        children.stop(process)
        raise Interrupted(f"stopped by a signal: what QScanner wrote is in {scan.folder}") from error
    if status:
        raise FirstflightError(f"{scan.program} ended with status {status}; its log is in {scan.folder}")
