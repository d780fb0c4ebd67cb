"""A network namespace with separate TCP settings, connected to this one by masquerading.

Packets leave with this namespace's address. Options and ECN bits do not change; the source port does not
change if it is free. The settings of this namespace stay unchanged, so it must already forward packets.
Everything disappears with this process, even after kill -9: the namespace with its holder process, the link
with the namespace, and the rules with the program that owns them (nft(8), table flag `owner`).
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from firstflight.errors import FirstflightError, UsageError
from firstflight.system import children

# Addresses of the links: /30 networks of 169.254.0.0/16 (RFC 3927), which no router forwards, and a /64 of a
# unique local prefix (RFC 4193). They never leave the machine, because forwarded packets have this
# namespace's address.
_V4 = "169.254.{}.{}"
_V6 = "fd66:6972:7374:{:x}::{}"
_FORWARD = {4: "/proc/sys/net/ipv4/ip_forward", 6: "/proc/sys/net/ipv6/conf/all/forwarding"}
_MOST = 64
_NETWORKS = 256 * _MOST
# The outer end of a link has the network's number in its name. The kernel accepts a name only once per
# namespace.
_OUTER = "ff-net{}"
_EXISTS = "File exists"  # message of ip(8) for EEXIST
_OFFLOADS = ("gro", "gso", "tso")


def forwards(family: int) -> bool:
    """Return whether this namespace forwards IPv4 (4) or IPv6 (6). Only the owner may change that."""
    try:
        return Path(_FORWARD[family]).read_text(encoding="ascii").strip() != "0"
    except FileNotFoundError:
        return False  # no IPv6 here


class Masqueraded:
    """Context manager for such a namespace.

    `place` (0 to 63) distinguishes a process's namespaces. `sysctls`: settings inside, with their names
    below /proc/sys/net, for example `ipv4/tcp_sack`. `mark`: alias of the inner `lo`. Raise UsageError
    without the privilege to create a namespace, or if this namespace does not forward IPv4.
    """

    interface = "up0"
    """The only interface inside except for `lo`."""

    def __init__(self, place: int, sysctls: Mapping[str, str], *, mark: str = "") -> None:
        if not 0 <= place < _MOST:
            raise ValueError(f"{place} is not a valid place of a namespace: use 0 to {_MOST - 1}")
        self._place = place
        self._sysctls = dict(sysctls)
        self._mark = mark
        self._stack = ExitStack()
        self._holder = 0
        self._network = 0

    def __enter__(self) -> Self:
        if not forwards(4):
            raise UsageError(
                "this machine does not forward IPv4, which a separate namespace for TCP settings requires: "
                "sysctl net.ipv4.ip_forward=1, with a firewall that forwards nothing from outside"
            )
        with ExitStack() as stack:
            self._keep_open(stack)
            self._link()
            self._rules(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def inside(self, argv: Sequence[str]) -> list[str]:
        """Return a command that runs a program inside."""
        return ["nsenter", f"--net=/proc/{self._holder}/ns/net", "--", *argv]

    def _keep_open(self, stack: ExitStack) -> None:
        """Start the process that keeps the namespace alive. It exits when the input is closed."""
        script = "echo; exec cat"
        holder = children.start(
            ["unshare", "--net", "sh", "-c", script],
            own_session=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        stack.callback(_end, holder)
        assert holder.stdout is not None and holder.stderr is not None
        if not holder.stdout.readline():
            reason = holder.stderr.read().decode(errors="replace").strip().rpartition(": ")[2]
            raise UsageError(f"no network namespace can be made ({reason}): run this as root")
        self._holder = holder.pid

    def _link(self) -> None:
        first = (os.getpid() * _MOST + self._place) % _NETWORKS
        self._network = _take_network(first, self.interface, self._holder)
        outer = _OUTER.format(self._network)
        v4, v6 = self._addresses(2)
        outer_v4, outer_v6 = self._addresses(1)
        _run("ip", "address", "add", f"{outer_v4}/30", "dev", outer)
        has_ipv6 = _has_ipv6(outer)
        if has_ipv6:
            _run("ip", "address", "add", f"{outer_v6}/64", "dev", outer, "nodad")
        for name, netns in ((outer, False), (self.interface, True)):
            argv = ["ethtool", "-K", name, *(word for offload in _OFFLOADS for word in (offload, "off"))]
            _run(*(self.inside(argv) if netns else argv))
        _run("ip", "link", "set", outer, "up")
        settings = {}
        if has_ipv6:
            settings = {"ipv6/conf/all/accept_dad": "0", f"ipv6/conf/{self.interface}/accept_ra": "0"}
        lines = [
            f"echo '{value}' > /proc/sys/net/{name}" for name, value in (settings | self._sysctls).items()
        ]
        lines += [
            f"ip link set lo {f'alias {self._mark} ' * bool(self._mark)}up",
            f"ip address add {v4}/30 dev {self.interface}",
            f"ip link set {self.interface} up",
            f"ip route add default via {outer_v4}",
        ]
        if has_ipv6:
            lines += [
                f"ip address add {v6}/64 dev {self.interface} nodad",
                f"ip -6 route add default via {outer_v6}",
            ]
        _run(*self.inside(["sh", "-e", "-c", "\n".join(lines)]))

    def _rules(self, stack: ExitStack) -> None:
        """Masquerade packets from the link, while the nft process that owns the table runs."""
        v4, v6 = self._addresses(2)
        table = f"inet firstflight_{self._network}"
        lines = [
            f"add table {table} {{ flags owner; }}",
            f"add chain {table} nat {{ type nat hook postrouting priority srcnat; }}",
            f"add rule {table} nat ip saddr {v4} masquerade",
            f"add rule {table} nat ip6 saddr {v6} masquerade",
            f"list table {table}",
        ]
        owner = children.start(
            ["nft", "-i"],
            own_session=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        stack.callback(_end, owner)
        assert owner.stdin is not None and owner.stdout is not None
        owner.stdin.write("".join(f"{line}\n" for line in lines).encode())
        answer = b""
        # The table's listing ends with a closing brace; an error message contains "Error".
        while not answer.endswith(b"\n}\n"):
            line = owner.stdout.readline()
            answer += line
            if not line or b"Error" in line:
                raise FirstflightError(f"nft does not masquerade: {answer.decode(errors='replace').strip()}")

    def _addresses(self, end: int) -> tuple[str, str]:
        network = self._network
        return _V4.format(network // _MOST, network % _MOST * 4 + end), _V6.format(network, end)


def _has_ipv6(interface: str) -> bool:
    """Return whether an interface here may have IPv6 addresses. Hardened machines disable them."""
    try:
        setting = Path(f"/proc/sys/net/ipv6/conf/{interface}/disable_ipv6").read_text(encoding="ascii")
    except FileNotFoundError:
        return False  # no IPv6 here
    return setting.strip() == "0"


def _take_network(first: int, inner: str, holder: int) -> int:
    """Create the link to `inner` in the namespace of process `holder`. Return the /30 network's number.

    The number is the first, starting with `first`, for which no interface here has an address in the network
    and no link exists. If two processes choose the same number, the kernel rejects the second link.
    """
    listing = subprocess.run(
        ["ip", "-4", "-o", "address", "show"], capture_output=True, text=True, check=False
    ).stdout
    in_use = {word.partition("/")[0] for word in listing.split()}
    for offset in range(_NETWORKS):
        network = (first + offset) % _NETWORKS
        if _V4.format(network // _MOST, network % _MOST * 4 + 1) in in_use:
            continue
        outer = _OUTER.format(network)
        try:
            _run("ip", "link", "add", outer, "type", "veth", "peer", inner, "netns", str(holder))
        except UsageError as error:
            if _EXISTS not in str(error):
                raise
        else:
            return network
    raise UsageError("all networks for links of namespaces are in use: stop programs that use them")


def _end(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    children.stop(process, grace_s=1.0)


def _run(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = done.stderr.strip() or f"status {done.returncode}"
        raise UsageError(f"a network namespace cannot be set up ({' '.join(argv[:4])}): {reason}")
