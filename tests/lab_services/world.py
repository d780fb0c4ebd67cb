"""One private network namespace with the addresses of `dns` and `web`, in which the real services run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from lab.internet import Internet
from lab.model import Host, Service


class World:
    """Services under test. All processes are children of one PID namespace and end with it."""

    def __init__(self, folder: Path, hosts: Sequence[Host], resolver: str) -> None:
        (folder / "resolv.conf").write_text(f"nameserver {resolver}\n")
        setup = ["set -e", "ip link set lo up"]
        for host in hosts:
            setup += [f"ip address add {host.v4}/32 dev lo", f"ip address add {host.v6}/128 dev lo nodad"]
        setup += [f"mount --bind {folder / 'resolv.conf'} /etc/resolv.conf", "echo up", "exec cat"]
        user = [] if os.geteuid() == 0 else ["--map-current-user", "--keep-caps"]
        namespaces = ["--net", "--mount", "--pid", "--mount-proc"]
        # `cat` ends when this process does, and everything in the PID namespace with it.
        self.holder = subprocess.Popen(
            ["unshare", *user, *namespaces, "--fork", "--kill-child", "sh", "-c", "\n".join(setup)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.holder.stdout is not None
        assert self.holder.stdout.readline() == "up\n", "the namespace could not be set up"
        pid = self.holder.pid
        init = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0]
        joined = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
        self.enter = ["nsenter", f"--target={init}", *joined, "--net", "--mount", "--pid"]
        self.folder = folder
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, services: Sequence[Service]) -> None:
        """Start all services, then wait until each is ready."""
        for service in services:
            log: IO[bytes]
            with (self.folder / f"{service.name}.log").open("wb") as log:
                place = [f"--wdns={service.cwd or '/'}"]  # entering a mount namespace forgets the folder
                self.running[service.name] = subprocess.Popen(
                    [*self.enter, *place, *service.argv], stdout=log, stderr=subprocess.STDOUT
                )
        for service in services:
            end = time.monotonic() + service.ready_timeout_s
            while not re.search(service.ready, self.log(service.name), re.MULTILINE):
                ended = self.running[service.name].poll()
                assert ended is None, f"{service.name} ended ({ended}): {self.log(service.name)[-2000:]}"
                assert time.monotonic() < end, f"{service.name} not ready: {self.log(service.name)[-2000:]}"
                time.sleep(0.02)

    def log(self, name: str) -> str:
        """What a service has logged so far."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def run(
        self, argv: Sequence[str], *, stdin: str = "", env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command inside and return how it ended."""
        return subprocess.run(
            [*self.enter, *argv],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={**os.environ, **(env or {})},
        )

    def client(self, *arguments: str, stdin: str = "", env: dict[str, str] | None = None) -> Any:
        """Run tests/lab_services/client.py inside and return the JSON that it prints."""
        done = self.run(
            [sys.executable, str(Path(__file__).with_name("client.py")), *arguments], stdin=stdin, env=env
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def close(self) -> None:
        """End everything."""
        assert self.holder.stdin is not None and self.holder.stdout is not None
        self.holder.stdin.close()
        self.holder.wait(timeout=10)
        self.holder.stdout.close()
        for process in self.running.values():
            process.wait(timeout=10)


def host(internet: Internet, kind: str) -> Host:
    """The only host of a kind."""
    (found,) = [one for one in internet.hosts if one.kind == kind]
    return found
