"""Two connected hosts in network namespaces that exist as long as this process; tcpdump on their interfaces.

Call `alone()` first: it restarts the program in a new namespace, the client's namespace.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

INSIDE = "FIRSTFLIGHT_RECORDING"
CLIENT, SERVER = "198.18.0.1", "198.18.0.2"
BEHIND = "198.18.1.2"
CLIENT6, SERVER6 = "2001:db8::1", "2001:db8::2"
PATIENCE_S = 10


def alone() -> None:
    """Restart the program in a new network namespace. Packets cannot leave it."""
    if os.environ.get(INSIDE) is None:
        os.environ[INSIDE] = "1"
        os.execvp("unshare", ["unshare", "-n", *sys.orig_argv])


def call(*argv: str) -> None:
    """Run a program on the client's host."""
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)


def wait_for(what: str, is_there: object) -> None:
    """Wait until a function returns true."""
    assert callable(is_there)
    until = time.monotonic() + PATIENCE_S
    while not is_there():
        assert time.monotonic() < until, f"timeout while waiting for {what}"
        time.sleep(0.02)


class RemoteHost:
    """The host at the other end of the veth pair."""

    def __init__(self) -> None:
        self.holder = subprocess.Popen(["unshare", "-n", "sleep", "600"])
        own_namespace = Path("/proc/self/ns/net").readlink()
        wait_for("a namespace", lambda: Path(f"/proc/{self.holder.pid}/ns/net").readlink() != own_namespace)

    def argv(self, *argv: str) -> list[str]:
        """Return the command that runs `argv` there."""
        return ["nsenter", "-n", "-t", str(self.holder.pid), *argv]

    def call(self, *argv: str) -> None:
        call(*self.argv(*argv))

    def end(self) -> None:
        self.holder.kill()
        self.holder.wait()


@contextmanager
def cable(*, offload: bool = False, mtu: int = 1500) -> Iterator[RemoteHost]:
    """Connect client and server, with IPv4 and IPv6 addresses on the interfaces `near` and `far`."""
    host = RemoteHost()
    try:
        call(
            "ip", "link", "add", "near", "type", "veth", "peer", "name", "far", "netns", str(host.holder.pid)
        )
        for run, name, addresses in (
            (call, "near", (CLIENT, CLIENT6)),
            (host.call, "far", (SERVER, SERVER6)),
        ):
            run("ip", "address", "add", f"{addresses[0]}/24", "dev", name)
            run("ip", "address", "add", f"{addresses[1]}/64", "dev", name, "nodad")
            run("ip", "link", "set", "lo", "up")
            run("ip", "link", "set", name, "mtu", str(mtu), "up")
            if not offload:
                run("ethtool", "-K", name, "tx", "off", "tso", "off", "gso", "off", "gro", "off")
            settings = ("tcp_ecn=1", "tcp_congestion_control=reno", "tcp_no_metrics_save=1")
            run("sysctl", "-qw", *(f"net.ipv4.{setting}" for setting in settings))
        yield host
    finally:
        with suppress(subprocess.CalledProcessError):
            call("ip", "link", "delete", "near")
        host.end()


@contextmanager
def behind_router(server: RemoteHost, mtu: int) -> Iterator[RemoteHost]:
    """Add a host that is reached through the client's host, which fragments packets larger than `mtu`."""
    host = RemoteHost()
    try:
        peer = ("peer", "name", "behind", "netns", str(host.holder.pid))
        call("ip", "link", "add", "narrow", "type", "veth", *peer)
        call("ip", "address", "add", "198.18.1.1/24", "dev", "narrow")
        call("ip", "link", "set", "narrow", "mtu", str(mtu), "up")
        call("sysctl", "-qw", "net.ipv4.ip_forward=1")
        host.call("ip", "address", "add", f"{BEHIND}/24", "dev", "behind")
        host.call("ip", "link", "set", "behind", "up")
        host.call("ip", "route", "add", "default", "via", "198.18.1.1")
        host.call("ethtool", "-K", "behind", "tx", "off", "tso", "off", "gso", "off", "gro", "off")
        call("ethtool", "-K", "narrow", "tx", "off", "tso", "off", "gso", "off", "gro", "off")
        server.call("ip", "route", "add", "198.18.1.0/24", "via", CLIENT)
        # Without path MTU discovery, packets may be fragmented.
        server.call("sysctl", "-qw", "net.ipv4.ip_no_pmtu_disc=1")
        yield host
    finally:
        host.end()


@contextmanager
def ready(argv: list[str]) -> Iterator[subprocess.Popen[str]]:
    """Run a server during the block; it must print READY when it has started."""
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "READY\n", argv
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def recording(
    path: Path, interface: str, expression: str, *, host: RemoteHost | None = None, snap: int = 0
) -> Iterator[None]:
    """Run tcpdump on an interface during the block; on the client's host unless `host` is given."""
    argv = [
        "tcpdump",
        "-i",
        interface,
        "-w",
        str(path),
        "--immediate-mode",
        "-U",
        "-s",
        str(snap),
        *expression.split(),
    ]
    log: IO[bytes]
    with path.with_suffix(".log").open("wb") as log:
        process = subprocess.Popen(host.argv(*argv) if host else argv, stderr=log)
        try:
            wait_for("tcpdump", lambda: b"listening" in path.with_suffix(".log").read_bytes())
            yield
            time.sleep(0.3)
        finally:
            process.terminate()
            process.wait()
    path.with_suffix(".log").unlink()
