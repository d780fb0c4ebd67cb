"""A machine outside the lab: a network namespace with default routes into a veth pair, and a capture.

Both interfaces of the pair are in the same namespace, where only tcpdump listens, so no packet gets out.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from firstflight.egress.lab import MARK
from tests.waiting import PATIENCE_S

# The namespace's own addresses. They are unassigned and do not belong to the lab.
OWN_V4, OWN_V6 = "192.0.2.1", "fd00:5e1f::1"
# Excludes the link's own packets (router solicitations, multicast reports).
EXPRESSION = "(udp or tcp) or net 198.18.0.0/15 or net 2001:db8::/32"

_SETUP = f"""
set -e
for file in accept_dad accept_ra router_solicitations; do echo 0 > /proc/sys/net/ipv6/conf/default/$file; done
ip link set lo up
ip link add out type veth peer name tap
ip link set tap up
ip link set out up
ip address add {OWN_V4}/32 dev out
ip address add {OWN_V6}/128 dev out nodad
ip neighbour replace 192.0.2.254 lladdr 02:00:00:00:00:01 nud permanent dev out
ip neighbour replace fe80::ff lladdr 02:00:00:00:00:01 nud permanent dev out
ip route add default via 192.0.2.254 dev out onlink src {OWN_V4}
ip route add default via fe80::ff dev out onlink src {OWN_V6}
for file in resolv.conf hosts; do mount --bind "$1/$file" /etc/$file; done
echo READY
exec sleep 3600
"""


class Outside:
    """The namespace, until `end`. `name_server` is in its /etc/resolv.conf, `hosts` in its /etc/hosts."""

    def __init__(self, folder: Path, name_server: str, hosts: Mapping[str, str]) -> None:
        self.folder = folder
        self.capture = folder / "heard.pcap"
        (folder / "resolv.conf").write_text(f"nameserver {name_server}\noptions timeout:1 attempts:1\n")
        lines = ["127.0.0.1 localhost", *(f"{address} {name}" for name, address in hosts.items())]
        (folder / "hosts").write_text("\n".join(lines) + "\n")
        user = [] if os.geteuid() == 0 else ["--map-root-user"]
        self._holder = subprocess.Popen(
            ["unshare", *user, "--net", "--mount", "sh", "-c", _SETUP, "sh", str(folder)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == "READY\n", "the namespace could not be made"
        command = ["tcpdump", "-i", "tap", "-n", "-U", "--immediate-mode", "-w", str(self.capture)]
        if os.geteuid() == 0:
            command += ["-Z", "root"]
        self._tcpdump = subprocess.Popen(
            [*self._inside(), *command, EXPRESSION], stderr=subprocess.PIPE, text=True
        )
        assert self._tcpdump.stderr is not None
        assert any("listening on tap" in line for line in iter(self._tcpdump.stderr.readline, ""))

    def _inside(self) -> list[str]:
        user = [] if os.geteuid() == 0 else ["-U", "--preserve-credentials"]
        return ["nsenter", "-t", str(self._holder.pid), *user, "-n", "-m", f"--wd={Path.cwd()}"]

    def run(
        self, argv: Sequence[str | Path], environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a program there to the end."""
        return subprocess.run(
            [*self._inside(), *map(str, argv)],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
            env={**os.environ, **(environment or {})},
        )

    def mark(self) -> None:
        """Mark the namespace as the lab."""
        assert self.run(["ip", "link", "set", "lo", "alias", MARK]).returncode == 0

    def unmark(self) -> None:
        """Remove the mark."""
        assert self.run(["ip", "link", "set", "lo", "alias", ""]).returncode == 0

    def packets(self) -> list[str]:
        """Return one line per packet sent before this call."""
        self._send_marker()
        end = time.monotonic() + 30
        while True:
            lines = self._read()
            if any(f"{OWN_V4}.{self._port} > " in line for line in lines):
                return [line for line in lines if " > 198.51.100.9.9: " not in line]
            assert time.monotonic() < end, "tcpdump captured no packet"
            time.sleep(0.05)

    def _read(self) -> list[str]:
        read = subprocess.run(
            ["tcpdump", "-n", "-r", str(self.capture)], capture_output=True, text=True, check=False
        )
        return read.stdout.splitlines()

    def _send_marker(self) -> None:
        """Send one UDP packet to a control address, which must be the last one captured."""
        code = (
            "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); "
            "s.sendto(b'control', ('198.51.100.9', 9)); print(s.getsockname()[1])"
        )
        done = self.run(["python3", "-c", code])
        assert done.returncode == 0, done.stderr
        self._port = int(done.stdout)

    def end(self) -> None:
        """Remove the namespace."""
        for process in (self._tcpdump, self._holder):
            process.kill()
            process.wait()
        for stream in (self._tcpdump.stderr, self._holder.stdout):
            assert stream is not None
            stream.close()


def udp_to(address: str, port: int) -> list[str]:
    """Return the command for a program that sends one UDP packet."""
    family = "AF_INET6" if ":" in address else "AF_INET"
    code = f"from socket import *; socket({family}, SOCK_DGRAM).sendto(b'x', ('{address}', {port}))"
    return ["python3", "-c", code]
