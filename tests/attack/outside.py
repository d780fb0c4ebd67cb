"""A machine outside the lab: a network namespace whose default routes lead to a cable, and an ear at its end.

The cable ends in the same namespace and nothing listens there but tcpdump, so there is no way out.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from firstflight.egress.lab import MARK

# What the namespace itself is called: no address of the lab, and none of anybody's.
OWN_V4, OWN_V6 = "192.0.2.1", "fd00:5e1f::1"
# The link's own chatter (router solicitations, multicast reports) is no packet of ours.
EXPRESSION = "(udp or tcp) or net 198.18.0.0/15 or net 2001:db8::/32"

_SETUP = f"""
set -e
for file in accept_dad accept_ra router_solicitations; do echo 0 > /proc/sys/net/ipv6/conf/default/$file; done
ip link set lo up
ip link add out type veth peer name ear
ip link set ear up
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
    """The namespace, until `end`. `name_server` stands in its /etc/resolv.conf, `hosts` in its /etc/hosts."""

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
        ear = ["tcpdump", "-i", "ear", "-n", "-U", "--immediate-mode", "-w", str(self.capture)]
        if os.geteuid() == 0:
            ear += ["-Z", "root"]
        self._ear = subprocess.Popen([*self._inside(), *ear, EXPRESSION], stderr=subprocess.PIPE, text=True)
        assert self._ear.stderr is not None
        assert any("listening on ear" in line for line in iter(self._ear.stderr.readline, ""))

    def _inside(self) -> list[str]:
        user = [] if os.geteuid() == 0 else ["-U", "--preserve-credentials"]
        return ["nsenter", "-t", str(self._holder.pid), *user, "-n", "-m", f"--wd={Path.cwd()}"]

    def run(
        self, argv: Sequence[str | Path], environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a program there and wait for its end."""
        return subprocess.run(
            [*self._inside(), *map(str, argv)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={**os.environ, **(environment or {})},
        )

    def mark(self) -> None:
        """Make it pass for the lab."""
        assert self.run(["ip", "link", "set", "lo", "alias", MARK]).returncode == 0

    def unmark(self) -> None:
        """Make it what it was."""
        assert self.run(["ip", "link", "set", "lo", "alias", ""]).returncode == 0

    def heard(self) -> list[str]:
        """One line per packet that left, so far: whatever was sent before this call is among them."""
        self._say_on_purpose()
        end = time.monotonic() + 30
        while True:
            lines = self._read()
            if any(f"{OWN_V4}.{self._port} > " in line for line in lines):
                return [line for line in lines if " > 198.51.100.9.9: " not in line]
            assert time.monotonic() < end, "the ear does not hear"
            time.sleep(0.05)

    def _read(self) -> list[str]:
        read = subprocess.run(
            ["tcpdump", "-n", "-r", str(self.capture)], capture_output=True, text=True, check=False
        )
        return read.stdout.splitlines()

    def _say_on_purpose(self) -> None:
        """One UDP packet to a control address, which the ear must have heard last."""
        code = (
            "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); "
            "s.sendto(b'control', ('198.51.100.9', 9)); print(s.getsockname()[1])"
        )
        done = self.run(["python3", "-c", code])
        assert done.returncode == 0, done.stderr
        self._port = int(done.stdout)

    def end(self) -> None:
        """End all of it."""
        for process in (self._ear, self._holder):
            process.kill()
            process.wait()
        for stream in (self._ear.stderr, self._holder.stdout):
            assert stream is not None
            stream.close()


def udp_to(address: str, port: int) -> list[str]:
    """A program that sends one UDP packet."""
    family = "AF_INET6" if ":" in address else "AF_INET"
    code = f"from socket import *; socket({family}, SOCK_DGRAM).sendto(b'x', ('{address}', {port}))"
    return ["python3", "-c", code]
