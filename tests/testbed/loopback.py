"""A client and a server of two stacks over loopback, configured as for a trial."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from firstflight.errors import FirstflightError
from firstflight.system.lines import next_line
from lab.hosts.certificates import Flaw, issue, make_authority
from testbed import stacks
from testbed.choices import HTTP, Protocol
from testbed.experiment.cell import Cell
from testbed.trials import server_config
from tests.free_port import free_port
from tests.testbed import client_checks
from tests.waiting import PATIENCE_S

NAME = "a.test"
_READY_S = 60.0


def configuration(
    folder: Path,
    server: str,
    body_bytes: int = 0,
    *,
    flaw: Flaw | None = None,
    alpn: Protocol | None = None,
) -> dict[str, Any]:
    """Return a server's configuration; its certificate, which may have a flaw, is written to `folder`.

    `alpn`: the protocol; by default the first one of the server's stack.
    """
    files = issue(make_authority(folder), "server", [NAME], flaw=flaw)
    port = free_port()
    cell = Cell.model_validate(
        {"client": "quinn", "server": server, "answering": "wfc", "body_bytes": body_bytes, "qdisc": "fq"}
    )
    launch_times = stacks.find(server).launch_times
    protocol = stacks.find(server).protocol(alpn)
    given = server_config.configuration(cell, NAME, protocol, files, launch_times=launch_times)
    given |= {"port": port, "listen": ["127.0.0.1"]}
    given["endpoints"][0]["ip"] = "127.0.0.1"
    return given


@contextmanager
def serving(
    folder: Path,
    server: str,
    given: dict[str, Any],
    *options: str,
) -> Iterator[None]:
    """Run a server that is configured so until the block ends.

    `options` of its program come before the others. Its messages go to server.log in `folder`.
    FirstflightError with them if it does not listen.
    """
    file, log = folder / "server.json", folder / "server.log"
    file.write_text(json.dumps(given), encoding="utf-8")
    argv = [*stacks.find(server).server_command(), *options, "--config", str(file)]
    with (
        log.open("wb") as messages,
        subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=messages, bufsize=0) as running,
    ):
        try:
            assert running.stdout is not None
            if next_line(running.stdout, _READY_S).strip() != b"READY":
                raise FirstflightError(
                    f"the server {server} does not start: {log.read_text('utf-8', 'replace')}"
                )
            yield
        finally:
            running.kill()


def answer(
    folder: Path,
    client: str,
    server: str,
    given: dict[str, Any],
    *,
    timeout_s: float = 120,
    max_bytes: int = 1 << 30,
    environment: Mapping[str, str] | None = None,
    logged: bool = False,
    asked: Mapping[str, object] | None = None,
) -> dict[str, Any]:
    """Return a client's answer to a request from a server that is configured so.

    It trusts the authority of `folder`; `environment` is added to the client's. `logged`: by the client that
    writes a log. `asked`: further fields of the request.
    """
    request = {
        **client_checks.REQUEST,
        "url": f"https://{NAME}:{given['port']}/",
        "http": HTTP[given["endpoints"][0]["alpn"]],
        "host": NAME,
        "ip": "127.0.0.1",
        "port": given["port"],
        "timeout_s": timeout_s,
        "max_bytes": max_bytes,
        "roots": str(make_authority(folder).path),
        **(asked or {}),
    }
    program = stacks.find(client).client_command(logged=logged)
    with serving(folder, server, given):
        done = subprocess.run(
            [*program, "allow-net=127.0.0.0/8"],
            input=json.dumps(request) + "\n",
            env={**os.environ, **(environment or {})},
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[1])
    return found
