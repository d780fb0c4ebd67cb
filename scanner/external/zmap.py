"""ZMap as an engine: finds IPv4 addresses in given networks that answer a forced Version Negotiation.

Supports ZMap 2.1 to 4.x: the short options used here have the same meaning in all of them.
"""

from __future__ import annotations

import csv
import ipaddress
import os
import secrets
import select
import shutil
import socket
import stat
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from firstflight.egress import lab
from firstflight.egress.current import LOOK_S
from firstflight.egress.permitted import Permitted, Span
from firstflight.errors import FirstflightError, Interrupted, UsageError
from firstflight.shard import WHOLE, Shard
from firstflight.system import children
from scanner.external import forced_negotiation, route
from scanner.external.lists_in_force import ListsInForce

# Average probes per second and /24, as for `firstflight probe` by itself (docs/ethics.md).
PER_PREFIX_RATE = 20
SPARE_S = 60.0
"""Seconds after which ZMap is stopped, in addition to twice the time that the addresses need."""
_FIELDS = "saddr,sport,ttl,timestamp-ts,timestamp-us,data"
_FILTER = 'success = 1 && repeat = 0 && classification = "udp"'


@dataclass(frozen=True)
class Sweep:
    """A sweep's options. `rate`: packets per second; `ports`: the source ports "FIRST-LAST".

    `per_prefix_rate`: average packets per second and /24; 0: no limit. A shard sends to its share of the
    addresses.
    """

    networks: Sequence[str]
    port: int = 443
    rate: float = 100
    per_prefix_rate: float = PER_PREFIX_RATE
    ports: str = "61440-61455"
    contact: str = ""
    cooldown_s: int = 8
    max_targets: int | None = None
    seed: int | None = None
    interface: str | None = None
    source: str | None = None
    gateway_mac: str | None = None
    program: str = "zmap"
    shard: Shard = WHOLE
    source_id: bytes = field(default_factory=lambda: secrets.token_bytes(forced_negotiation.ID_BYTES))
    destination_id: bytes = field(default_factory=lambda: secrets.token_bytes(forced_negotiation.ID_BYTES))

    def parsed(self) -> list[ipaddress.IPv4Network]:
        """Return the networks of the shard, without overlaps.

        Raise UsageError for an invalid or too large network, and NotTheLab for one of the lab elsewhere.
        """
        networks = self._of_shard()
        for text in self.networks:
            _check_lab(text)
        return networks

    def spans(self) -> list[Span]:
        """Return the first and last address of each network of the shard, as numbers. Raise UsageError."""
        return [(int(n.network_address), int(n.broadcast_address)) for n in self._of_shard()]

    def _of_shard(self) -> list[ipaddress.IPv4Network]:
        networks = []
        for text in self.networks:
            try:
                network = ipaddress.ip_network(text)
            except ValueError as error:
                raise UsageError(f"network {text}: {error}") from error
            if not isinstance(network, ipaddress.IPv4Network):
                raise UsageError(f"network {text}: ZMap only sweeps IPv4")
            if network.prefixlen < 8:
                raise UsageError(f"network {text}: name networks of /8 or smaller, not a part of everything")
            networks.append(network)
        return _part(list(ipaddress.collapse_addresses(networks)), self.shard)

    def fair_rate(self, permitted: Permitted) -> int:
        """Return the rate at which no /24 exceeds its average limit, because ZMap has no limits per prefix.

        ZMap probes in random order. So a /24's share of the rate equals its share of the permitted addresses.
        Raise UsageError for a rate below 1, which ZMap does not support.
        """
        rate = self.rate
        counts = _addresses_by_prefix(permitted.permitted_ipv4(self.spans()))
        if counts and self.per_prefix_rate:
            rate = min(rate, self.per_prefix_rate * counts.total() / max(counts.values()))
        if rate < 1:
            raise UsageError(
                f"the rate and the limit per /24 permit {rate:g} packets a second, but ZMap sends at least 1 "
                "packet a second: raise them; nothing was sent"
            )
        return int(rate)


@dataclass(frozen=True)
class Speaker:
    """An address that answered. `received_at`: ns since 1970 (UTC), from libpcap's stamp in microseconds."""

    ip: str
    port: int
    versions: list[int]
    ttl: int
    received_at: int


def _part(networks: list[ipaddress.IPv4Network], shard: Shard) -> list[ipaddress.IPv4Network]:
    """Return a shard's addresses, which are consecutive. The lists have no influence on the division.

    ZMap's option --shards divides the permitted addresses. So two shards that start with different lists
    would both scan some addresses, and omit others.
    """
    if shard.is_whole:
        return networks
    total = sum(network.num_addresses for network in networks)
    begin, end = (total * index // shard.count for index in (shard.index, shard.index + 1))
    part: list[ipaddress.IPv4Network] = []
    for network in networks:
        low, high = max(begin, 0), min(end, network.num_addresses) - 1
        if low <= high:
            part += ipaddress.summarize_address_range(network[low], network[high])
        begin, end = begin - network.num_addresses, end - network.num_addresses
    return part


def _check_lab(text: str) -> None:
    # ZMap bypasses the kernel's routes when it sends frames, so a loopback route gives no protection.
    network = ipaddress.IPv4Network(text)
    ranges = map(ipaddress.ip_network, lab.RANGES)
    is_of_lab = any(network.overlaps(known) for known in ranges if isinstance(known, ipaddress.IPv4Network))
    if is_of_lab and not lab.is_lab():
        raise lab.NotTheLab(
            f"network {text} has addresses of the lab, and this is not the lab: nothing was sent"
        )


def _addresses_by_prefix(spans: Iterable[Span]) -> Counter[int]:
    """Count the addresses in each /24 of the ranges."""
    counts: Counter[int] = Counter()
    for first, last in spans:
        for prefix in range(first >> 8, (last >> 8) + 1):
            counts[prefix] += min(last, prefix << 8 | 0xFF) - max(first, prefix << 8) + 1
    return counts


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
        # Not a pipe: ZMap would wait for a reader when the pipe is full.
        tempfile.TemporaryFile() as errors,
    ):
        blocked, networks = Path(folder, "blocked.txt"), Path(folder, "networks.txt")
        blocked.write_text("".join(f"{line}\n" for line in permitted.blocked_ipv4()))
        networks.write_text("".join(f"{network}\n" for network in parsed))
        process = children.start(
            arguments(sweep, rate, blocked, networks),
            stdout=subprocess.PIPE,
            stderr=errors,
            pass_fds=held,
        )
        try:
            yield from _speakers(process, sweep, parsed, permitted, check)
            status = _status(process, check)
        except KeyboardInterrupt as error:
            raise Interrupted("stopped by a signal: not all addresses were scanned") from error
        finally:
            children.stop(process)
        if status:
            errors.seek(0)
            message = _last_line(errors.read().decode(errors="replace"))
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


def _status(process: subprocess.Popen[bytes], check: Callable[[], None]) -> int:
    """Wait for the exit of ZMap, and return its status. Call `check` several times a second."""
    while True:
        try:
            return process.wait(LOOK_S)
        except subprocess.TimeoutExpired:
            check()


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
    lines = _lines(process.stdout.fileno(), check)
    next(lines, None)  # the header, which ZMap 2.1 does not quote correctly
    for row in csv.DictReader(lines, _FIELDS.split(",")):
        listed = forced_negotiation.versions(_bytes(row["data"] or ""), sweep.source_id, sweep.destination_id)
        is_asked = int(row["sport"]) == sweep.port and _is_permitted(row["saddr"], networks, permitted)
        if listed is not None and is_asked:
            received_ns = int(row["timestamp-ts"]) * 10**9 + int(row["timestamp-us"]) * 1000
            yield Speaker(row["saddr"], int(row["sport"]), listed, int(row["ttl"]), received_ns)


def _lines(descriptor: int, check: Callable[[], None]) -> Iterator[str]:
    """Yield the lines that arrive at a pipe until it is closed.

    Call `check` several times a second, and before each line.
    """
    rest = b""
    while True:
        check()
        if not select.select([descriptor], [], [], LOOK_S)[0]:
            continue
        arrived = os.read(descriptor, 1 << 16)
        if not arrived:
            return
        *lines, rest = (rest + arrived).split(b"\n")
        for line in lines:
            check()
            yield line.decode(errors="replace")


def _is_permitted(address: str, networks: Sequence[ipaddress.IPv4Network], permitted: Permitted) -> bool:
    """Return whether an answer is from a probed address. A probed host may forge answers of other hosts."""
    ip = ipaddress.IPv4Address(address)
    return any(ip in network for network in networks) and permitted.why_not(address) is None


def _bytes(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""


def _last_line(message: str) -> str:
    lines = [line for line in message.splitlines() if line.strip()]
    return lines[-1].rpartition("] ")[2] if lines else "it gave no reason"


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
