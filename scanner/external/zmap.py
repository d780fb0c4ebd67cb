"""ZMap as an engine: finds IPv4 addresses in given networks that answer a forced Version Negotiation.

Supports ZMap 2.1 to 4.x: the short options used here have the same meaning in all of them.
"""

from __future__ import annotations

import csv
import ipaddress
import os
import shutil
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from firstflight.egress.current import LOOK_S
from firstflight.egress.permitted import Permitted
from firstflight.errors import FirstflightError, Interrupted, UsageError
from firstflight.system import children
from firstflight.system.lines import all_lines, last_line
from scanner.external import forced_negotiation, route
from scanner.external.lists_in_force import ListsInForce
from scanner.external.sweep import Sweep

SPARE_S = 60.0
"""Seconds after which ZMap is stopped, in addition to twice the time that the addresses need."""
_FIELDS = "saddr,sport,ttl,timestamp-ts,timestamp-us,data"
_FILTER = 'success = 1 && repeat = 0 && classification = "udp"'


@dataclass(frozen=True)
class Speaker:
    """An address that answered. `received_at`: ns since 1970 (UTC), from libpcap's stamp in microseconds."""

    ip: str
    port: int
    versions: list[int]
    ttl: int
    received_at: int


def arguments(sweep: Sweep, rate: int, blocked: Path, networks: Path) -> list[str]:
    """Return ZMap's command line. `blocked` and `networks` are files with one network per line."""
    payload = forced_negotiation.datagram(sweep.source_id, sweep.destination_id, sweep.contact)
    argv = [sweep.program, "-M", "udp", f"--probe-args=hex:{payload.hex()}", "-p", str(sweep.port)]
    argv += ["-b", str(blocked), "-w", str(networks), "-r", str(rate), "-s", sweep.ports]
    argv += ["-c", str(sweep.cooldown_s), "-T", "1", "-O", "csv", "-f", _FIELDS]
    argv += [f"--output-filter={_FILTER}", "-o", "-", "-q", "-v", "2", "--disable-syslog", "-C", "/dev/null"]
    for option, value in (
        ("-n", sweep.max_targets),
        ("-e", sweep.seed),
        ("-i", sweep.interface),
        ("-S", sweep.source),
        ("-G", sweep.gateway_mac),
    ):
        argv += [] if value is None else [option, str(value)]
    return argv


def check_program(program: str) -> None:
    """Raise UsageError if ZMap would continue after a kill -9 of this process. A missing program passes.

    The kernel clears the signal at the parent's exit when a program gets more rights (prctl(2),
    PR_SET_PDEATHSIG). Nothing would then stop ZMap when a list changes.
    """
    path = shutil.which(program)
    if path is None or os.geteuid() == 0:
        return
    gains_rights = Path(path).stat().st_mode & (stat.S_ISUID | stat.S_ISGID)
    if gains_rights or "security.capability" in os.listxattr(path):
        raise UsageError(
            f"{path} has file capabilities or a setuid or setgid bit, so it would send on if this process "
            "were killed: remove them (`setcap -r`, `chmod ug-s`), and run firstflight as root or with "
            "CAP_NET_RAW as an ambient capability; nothing was sent"
        )


def run(
    sweep: Sweep,
    permitted: Permitted,
    look: Callable[[], None] = lambda: None,
    held: Sequence[int] = (),
) -> Generator[Speaker]:
    """Sweep the networks. Yield each address once, when its answer arrives.

    Call `look` several times a second; an error that it raises stops ZMap. ZMap keeps the descriptors `held`
    open, and with them their locks. Closing the generator stops ZMap.

    Raise UsageError if ZMap is missing or `check_program` refuses it, FirstflightError with the message if it
    fails, ListsChanged if it was stopped because of the lists, and Interrupted on Ctrl-C. The yielded results
    are complete in each case.
    """
    check_program(sweep.program)
    parsed = sweep.parsed()
    in_force = ListsInForce(permitted, sweep.spans(), look)
    if not in_force.addresses:
        return  # ZMap refuses to start, or scans everything if a shard has no network
    sweep = _with_route(sweep, [str(network.network_address) for network in parsed])
    rate = sweep.fair_rate(permitted)
    check = _with_deadline(in_force.check, sweep, 2 * in_force.addresses / rate + sweep.cooldown_s + SPARE_S)
    with (
        tempfile.TemporaryDirectory(prefix="firstflight-zmap-") as folder,
        _reserved_ports(sweep.ports, sweep.source),
    ):
        blocked, networks, log = (Path(folder, f"{name}.txt") for name in ("blocked", "networks", "log"))
        blocked.write_text("".join(f"{line}\n" for line in permitted.blocked_ipv4()))
        networks.write_text("".join(f"{network}\n" for network in parsed))
        argv = arguments(sweep, rate, blocked, networks)
        # Not a pipe: ZMap would wait for a reader when the pipe is full.
        with log.open("wb") as errors:
            process = children.start(argv, stdout=subprocess.PIPE, stderr=errors, pass_fds=held)
        try:
            yield from _speakers(process, sweep, parsed, permitted, check)
            status = children.wait(process, check, LOOK_S)
        except KeyboardInterrupt as error:
            raise Interrupted("stopped by a signal: not all addresses were scanned") from error
        finally:
            children.stop(process)
        if status:
            message = last_line(log).rpartition("] ")[2] or "it gave no reason"
            raise FirstflightError(f"{sweep.program} ended with status {status}: {message}")


def _with_deadline(check: Callable[[], None], sweep: Sweep, limit_s: float) -> Callable[[], None]:
    """Return `check`, with FirstflightError after `limit_s` seconds."""
    end_s = time.monotonic() + limit_s

    def check_both() -> None:
        check()
        if time.monotonic() > end_s:
            raise FirstflightError(
                f"{sweep.program} was stopped, because it did not end within {limit_s:.0f} s: "
                "run the scan again"
            )

    return check_both


def _with_route(sweep: Sweep, addresses: Sequence[str]) -> Sweep:
    """Fill in a missing interface, source and gateway. UsageError if the networks have different ones."""
    if sweep.interface and sweep.source and sweep.gateway_mac:
        return sweep
    routes = {route.to(address, sweep.source) for address in addresses}
    if len(routes) > 1:
        raise UsageError("the networks have different routes: sweep them one by one; nothing was sent")
    (common_route,) = routes
    interface, source = sweep.interface or common_route.interface, sweep.source or common_route.source
    return replace(
        sweep, interface=interface, source=source, gateway_mac=sweep.gateway_mac or common_route.gateway_mac
    )


def _speakers(
    process: subprocess.Popen[bytes],
    sweep: Sweep,
    networks: Sequence[ipaddress.IPv4Network],
    permitted: Permitted,
    check: Callable[[], None],
) -> Iterator[Speaker]:
    assert process.stdout is not None
    lines = (line.decode(errors="replace") for line in all_lines(process.stdout, check, LOOK_S))
    next(lines, None)  # the header, which ZMap 2.1 does not quote correctly
    for row in csv.DictReader(lines, _FIELDS.split(",")):
        listed = forced_negotiation.versions(_bytes(row["data"] or ""), sweep.source_id, sweep.destination_id)
        is_asked = int(row["sport"]) == sweep.port and _is_permitted(row["saddr"], networks, permitted)
        if listed is not None and is_asked:
            received_ns = int(row["timestamp-ts"]) * 10**9 + int(row["timestamp-us"]) * 1000
            yield Speaker(row["saddr"], int(row["sport"]), listed, int(row["ttl"]), received_ns)


def _is_permitted(address: str, networks: Sequence[ipaddress.IPv4Network], permitted: Permitted) -> bool:
    """Return whether an answer is from a probed address. A probed host may forge answers of other hosts."""
    ip = ipaddress.IPv4Address(address)
    return any(ip in network for network in networks) and permitted.why_not(address) is None


def _bytes(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""


@contextmanager
def _reserved_ports(ports: str, source: str | None) -> Iterator[None]:
    """Bind the source ports, so that the kernel does not answer servers with ICMP port unreachable."""
    first, _, last = ports.partition("-")
    with ExitStack() as stack:
        for port in range(int(first), int(last or first) + 1):
            sock = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            try:
                sock.bind((source or "", port))
            except OSError as error:
                raise UsageError(
                    f"source port {port} is not available ({error.strerror}): choose other source ports"
                ) from error
        yield
