"""Checks of disk, open files, native programs and source ports. They send nothing."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

from firstflight import capture
from firstflight.errors import FirstflightError, OutputError, UsageError
from firstflight.run.run import runs_root
from firstflight.settings import Settings, Vantage
from firstflight.system import binaries, open_files
from firstflight.system.network import netns
from orchestration import stages
from orchestration.checks.finding import Finding, failed, ok, warning
from scanner.external import outline as scan
from scanner.external import zmap as engine

ENOUGH_FREE_BYTES = 5 << 30
"""Enough for most campaigns. The space that a campaign needs depends on its number of names."""
RECEIVE_BUFFER_BYTES = 8 << 20
"""The receive buffer that the engines request per port (scanner/native/core/src/sockets/egress/socket.rs)."""

_RMEM_MAX = Path("/proc/sys/net/core/rmem_max")
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
_STATUS = Path("/proc/self/status")
_CAP_NET_ADMIN, _CAP_NET_RAW = 12, 13


def disk() -> Finding:
    """Return whether the folder of runs is writable, and how much space it has."""
    root = runs_root()
    existing = next(path for path in (root, *root.absolute().parents) if path.is_dir())
    name = "disk"
    if not os.access(existing, os.W_OK | os.X_OK):
        return failed(
            name, f"{existing} is not writable for this user", "set FIRSTFLIGHT_RUNS to a folder that is"
        )
    free = shutil.disk_usage(existing).free
    text = f"{free / 1e9:.3g} GB are free for runs in {root}"
    cure = "free space, or set FIRSTFLIGHT_RUNS to a folder on a larger disk"
    if free < capture.LEAST_FREE_BYTES:
        return failed(name, text, cure, OutputError.exit_status)
    return ok(name, text) if free >= ENOUGH_FREE_BYTES else warning(name, text, cure)


def files() -> Finding:
    """Return whether this process may open enough files, after raising its limit to the permitted maximum."""
    name, cure = "open files", f"run `ulimit -n {open_files.ENOUGH}`, or set LimitNOFILE= in the unit"
    try:
        open_files.raise_limit()
    except FirstflightError as error:
        return failed(name, str(error).removeprefix("too many open files: "))
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit != resource.RLIM_INFINITY and limit < open_files.ENOUGH:
        return warning(name, f"this process may have {limit} open at a time", cure)
    return ok(name, "no limit" if limit == resource.RLIM_INFINITY else f"{limit} at a time")


def programs(settings: Settings) -> Finding:
    """Return whether the native programs of the enabled stages are here."""
    name = "programs"
    enabled = [stage for stage in stages.STAGES if stage.is_enabled(settings)]
    program_names = dict.fromkeys(program for stage in enabled for program in stage.programs)
    try:
        paths = [binaries.find(program) for program in program_names]
    except UsageError as error:
        return failed(name, str(error))
    return ok(name, f"{len(paths)} native programs in {paths[0].parent}")


def ports(settings: Settings, vantage: Vantage) -> Finding:
    """Return whether the source ports are free, and the kernel assigns them to no other program."""
    name = "ports"
    first, last = map(int, settings.ports_at(vantage).split("-"))
    sources = vantage.sources or tuple({4: "0.0.0.0", 6: "::"}[family] for family in settings.probe.families)
    taken: set[int] = set()
    for source in sources:
        for port in range(first, last + 1):
            code = _bound(source, port)
            if code == errno.EADDRINUSE:
                taken.add(port)
            elif code == errno.EADDRNOTAVAIL and vantage.sources:
                return failed(
                    name, f"{source} is not an address of this machine", "correct sources of [[vantage]]"
                )
    if taken:
        return failed(
            name,
            f"another program has UDP port {min(taken)} ({len(taken)} of {first}-{last} are taken)",
            "end it (`ss -ulnp` names it), or set other ports (probe.ports)",
        )
    low, high = map(int, _EPHEMERAL.read_text(encoding="ascii").split())
    if low <= last and first <= high:
        return warning(
            name,
            f"{first}-{last} are free, but overlap the ports that the kernel gives to other programs "
            f"({low}-{high})",
            "set other ports (probe.ports), or reserve these (net.ipv4.ip_local_reserved_ports)",
        )
    return ok(name, f"UDP ports {first}-{last} are free")


def forwarding(settings: Settings) -> Finding | None:
    """Return whether namespaces for option sets can be made; `None` if no stage needs one."""
    name, cure = "forwarding", "run `sysctl -w net.ipv4.ip_forward=1`, with a firewall against others"
    if not (settings.download.enabled or settings.tcp_options.enabled):
        return None
    if netns.forwards(4):
        return ok(name, "this machine forwards IPv4, as namespaces with TCP settings need")
    text = "this machine does not forward IPv4, which namespaces with TCP settings need"
    return failed(name, text, cure) if settings.download.enabled else warning(name, text, cure)


def zmap(settings: Settings, vantage: Vantage) -> Finding | None:
    """Return whether ZMap can scan the networks of `[scan]` from here; `None` if no scan is enabled."""
    name = "zmap"
    if not settings.scan.enabled:
        return None
    path = shutil.which(name)
    if path is None:
        return failed(name, "ZMap is not in PATH", "install it (`apt-get install zmap`)")
    try:
        engine.check_program(path)
        rate, _ = scan.pace(settings, vantage)
    except FirstflightError as error:
        return failed(name, str(error).removesuffix("; nothing was sent"))
    if not _has_capability(_CAP_NET_RAW):
        return warning(
            name,
            "this process lacks CAP_NET_RAW, which ZMap needs",
            "run the scan as root, or with the ambient capability",
        )
    return ok(name, f"{path}, at {rate} datagrams per second")


def receive_buffer() -> Finding:
    """Return whether a socket can have the receive buffer that the engines request."""
    name = "receive buffer"
    largest = int(_RMEM_MAX.read_text(encoding="ascii"))
    if largest >= RECEIVE_BUFFER_BYTES or _has_capability(_CAP_NET_ADMIN):
        return ok(name, f"{RECEIVE_BUFFER_BYTES >> 20} MiB per port")
    return warning(
        name,
        f"{largest >> 10} KiB per port, so answers may be lost at high rates",
        f"run `sysctl -w net.core.rmem_max={RECEIVE_BUFFER_BYTES}`",
    )


def _bound(source: str, port: int) -> int:
    """Bind a UDP port for a moment; return the error number, 0 if it was free."""
    family = socket.AF_INET6 if ":" in source else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as udp:
            if family == socket.AF_INET6:
                udp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            udp.bind((source, port))
    except OSError as error:
        return error.errno or errno.EIO
    return 0


def _has_capability(number: int) -> bool:
    return any(int(line.split()[1], 16) >> number & 1 for line in _effective())


def _effective() -> Iterator[str]:
    yield from (
        line for line in _STATUS.read_text(encoding="ascii").splitlines() if line.startswith("CapEff:")
    )
