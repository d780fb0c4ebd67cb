"""Runs the engine of the TCP option survey, and servers with given options in separate namespaces."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from firstflight.capture import TcpdumpCapture
from firstflight.capture_files import losses_of
from firstflight.system import binaries
from tests.waiting import PATIENCE_S

PORT = 443
ALLOW = ("--allow-net", "10.77.0.0/16", "--allow-net", "fd77::/16")
FAST = ("--per-address-rate", "0", "--per-prefix-rate", "0", "--rate", "500")
OFFERED = {"tcp_timestamps": 1, "tcp_sack": 1, "tcp_window_scaling": 1, "tcp_ecn": 1}
# The argument is the largest window; 0 selects the system's default.
LISTENER = (
    f"import socket, sys; s = socket.create_server(('', {PORT}), family=socket.AF_INET6, backlog=1000, "
    "dualstack_ipv6=True); window = int(sys.argv[1])\n"
    "if window: s.setsockopt(socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP, window)\n"
    "print('READY', flush=True)\n"
    "while True: s.accept()[0].close()"
)
# Drops only the first SYN: the quota is exhausted within the second.
FIRST_SYN = "tcp flags & (syn | ack) == syn quota until 100 bytes drop"


@dataclass(frozen=True)
class TcpServer:
    """A server: sysctls, MTU, firewall rule for SYNs, and largest window."""

    sysctls: dict[str, int] = field(default_factory=dict)
    mtu: int = 1500
    rule: str = ""
    listens: bool = True
    window: int = 0


SERVERS = {
    "all.test": TcpServer(),
    "no-timestamps.test": TcpServer({"tcp_timestamps": 0}),
    "no-sack.test": TcpServer({"tcp_sack": 0}),
    "no-scaling.test": TcpServer({"tcp_window_scaling": 0}),
    "no-ecn.test": TcpServer({"tcp_ecn": 0}),
    "none.test": TcpServer({"tcp_timestamps": 0, "tcp_sack": 0, "tcp_window_scaling": 0, "tcp_ecn": 0}),
    "small.test": TcpServer(mtu=1400),
    "first-lost.test": TcpServer(rule=FIRST_SYN),
    "refuses.test": TcpServer(listens=False),
    "prohibits.test": TcpServer(rule="reject with icmp type host-prohibited"),
    "drops.test": TcpServer(rule="drop"),
}


@dataclass
class TcpEngineOutput:
    """The output from a run of the engine."""

    status: int
    rows: dict[str, dict[str, Any]]
    messages: str


class TcpWorld:
    """A client's namespace with a link to each server's namespace."""

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[str]] = []
        self.client = self._namespace()

    def _namespace(self) -> subprocess.Popen[str]:
        script = "ip link set lo up && echo READY && exec sleep 3600"
        return self._start(["unshare", "--net", "sh", "-c", script])

    def _start(self, argv: Sequence[str]) -> subprocess.Popen[str]:
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        self._processes.append(process)
        assert process.stdout is not None and process.stdout.readline() == "READY\n"
        return process

    @staticmethod
    def inside(namespace: subprocess.Popen[str], *argv: object) -> list[str]:
        """Return the command line that runs `argv` in a namespace."""
        return ["nsenter", "--target", str(namespace.pid), "--net", *map(str, argv)]

    def sysctl(self, namespace: subprocess.Popen[str], name: str, value: object) -> None:
        """Set a TCP sysctl in a namespace."""
        script = f"echo {value} > /proc/sys/net/ipv4/{name}"
        subprocess.run(self.inside(namespace, "sh", "-c", script), check=True)

    def add(self, number: int, server: TcpServer) -> str:
        """Start a server; return the IPv4 address (`v6` returns the IPv6 address)."""
        near, far, server_namespace = f"10.77.{number}.1", f"10.77.{number}.2", self._namespace()
        steps = [
            (self.client, f"ip link add s{number} type veth peer name eth0 netns {server_namespace.pid}"),
            (self.client, f"ip addr add {near}/24 dev s{number}"),
            (self.client, f"ip link set s{number} up"),
            (self.client, f"ip addr add fd77:0:0:{number}::1/64 dev s{number} nodad"),
            (server_namespace, f"ip addr add {far}/24 dev eth0"),
            (server_namespace, f"ip addr add {self.v6(number)}/64 dev eth0 nodad"),
            (server_namespace, f"ip link set eth0 mtu {server.mtu} up"),
        ]
        if server.rule:
            chain = "{ type filter hook input priority 0; }"
            steps += [
                (server_namespace, "nft add table ip t"),
                (server_namespace, f"nft add chain ip t i '{chain}'"),
                (server_namespace, f"nft 'add rule ip t i tcp dport {PORT} {server.rule}'"),
            ]
        for namespace, step in steps:
            subprocess.run(self.inside(namespace, "sh", "-c", step), check=True)
        for name, value in server.sysctls.items():
            self.sysctl(server_namespace, name, value)
        if server.listens:
            self._start(self.inside(server_namespace, sys.executable, "-c", LISTENER, server.window))
        return far

    @staticmethod
    def v6(number: int) -> str:
        """Return a server's IPv6 address."""
        return f"fd77:0:0:{number}::2"

    def ask(self, folder: Path, targets: Sequence[tuple[str, str]], *options: object) -> TcpEngineOutput:
        """Run the engine in the client's namespace for targets (address, name)."""
        path = folder / "targets.csv"
        path.write_text("ip,domain,port\n" + "".join(f"{ip},{name},\n" for ip, name in targets))
        argv = engine("--targets", path, *ALLOW, *FAST, *options)
        done = subprocess.run(
            self.inside(self.client, *argv), capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        return TcpEngineOutput(done.returncode, {row["domain"]: row for row in rows}, done.stderr)

    def close(self) -> None:
        """Kill all processes in it."""
        for process in reversed(self._processes):
            process.kill()
        for process in self._processes:
            process.wait()


def engine(*arguments: object) -> list[str]:
    """Return the command line of the engine."""
    return [str(binaries.find("firstflight-tcp-options")), *map(str, arguments)]


@pytest.fixture
def world() -> Iterator[TcpWorld]:
    """A client that offers all options, without servers."""
    found = TcpWorld()
    try:
        for name, value in OFFERED.items():
            found.sysctl(found.client, name, value)
        yield found
    finally:
        found.close()


@dataclass
class CapturedServers:
    """The servers' rows, and the capture of their packets."""

    rows: dict[str, dict[str, Any]]
    pcap: Path


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CapturedServers]:
    """Probe all servers once, and capture the packets."""
    folder, found = tmp_path_factory.mktemp("survey"), TcpWorld()
    try:
        for name, value in OFFERED.items():
            found.sysctl(found.client, name, value)
        targets = [(found.add(number, server), name) for number, (name, server) in enumerate(SERVERS.items())]
        pcap = folder / "survey.pcap"
        limits: dict[str, Any] = {"snaplen": 65_535, "buffer_kib": 4096, "drain_s": 1.2, "max_bytes": 1 << 26}
        with TcpdumpCapture(pcap, "any", "tcp", **limits, prefix=TcpWorld.inside(found.client)) as capture:
            done = found.ask(folder, targets, "--timeout", 5)
        assert done.status == 0, done.messages
        assert losses_of(capture.record) == []
        yield CapturedServers(done.rows, pcap)
    finally:
        found.close()
