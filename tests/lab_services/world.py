"""A private network namespace with the addresses of `dns` and `web`, for the real services."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lab.declared.internet import Internet
from lab.declared.model import Host, Service
from tests.waiting import PATIENCE_S

HERE = Path(__file__).parent


@dataclass(frozen=True)
class CommandResult:
    """A command's result."""

    status: int
    stdout: str
    stderr: str


class ServiceWorld:
    """Services under test, in namespaces that exist as long as this process. Does not need root."""

    def __init__(self, folder: Path, hosts: Sequence[Host], resolver: str) -> None:
        self.folder = folder
        resolv_conf = folder / "resolv.conf"
        resolv_conf.write_text(f"nameserver {resolver}\n")
        addresses = [address for host in hosts for address in (f"{host.v4}/32", f"{host.v6}/128")]
        addresses += [f"{address}/32" for host in hosts for address in host.more]
        user = [] if os.geteuid() == 0 else ["--map-current-user", "--keep-caps"]
        namespaces = ["--net", "--mount", "--pid", "--mount-proc", "--fork", "--kill-child"]
        holder = [sys.executable, str(HERE / "holder.py"), str(resolv_conf), *addresses]
        self.holder = subprocess.Popen(
            ["unshare", *user, *namespaces, *holder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._reply()

    def _ask(self, request: dict[str, Any]) -> Any:
        assert self.holder.stdin is not None
        self.holder.stdin.write(json.dumps(request) + "\n")
        self.holder.stdin.flush()
        return self._reply()

    def _reply(self) -> Any:
        assert self.holder.stdout is not None
        line = self.holder.stdout.readline()
        assert line, "the test's namespaces have exited; see standard error"
        return json.loads(line)

    def start(self, services: Sequence[Service]) -> None:
        """Start all services and wait until each is ready."""
        plain = [{**asdict(service), "cwd": service.cwd and str(service.cwd)} for service in services]
        error = self._ask({"start": plain, "logs": str(self.folder)})["error"]
        assert error is None, error

    def run(
        self, argv: Sequence[str], *, stdin: str = "", env: dict[str, str] | None = None
    ) -> CommandResult:
        """Run a command inside and return its result."""
        return CommandResult(**self._ask({"run": list(argv), "stdin": stdin, "env": env or {}}))

    def client(self, *arguments: str, stdin: str = "", env: dict[str, str] | None = None) -> Any:
        """Run client.py inside and return the JSON that it prints."""
        done = self.run([sys.executable, str(HERE / "client.py"), *arguments], stdin=stdin, env=env)
        assert done.status == 0, done.stderr
        return json.loads(done.stdout)

    def close(self) -> None:
        """Stop everything."""
        assert self.holder.stdin is not None and self.holder.stdout is not None
        self.holder.stdin.close()
        self.holder.wait(timeout=PATIENCE_S)
        self.holder.stdout.close()


def host(internet: Internet, kind: str) -> Host:
    """Return a kind's only host."""
    (found,) = [each_host for each_host in internet.hosts if each_host.kind == kind]
    return found
