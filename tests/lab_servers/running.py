"""Starts a server of the lab on loopback, with the lab's configuration for the given endpoints."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from lab import stacks
from lab.declared.model import Endpoint
from lab.hosts.certificates import issue, make_authority
from lab.hosts.servers import CHAIN_BYTES, configuration
from tests.free_port import free_port

HOST = "127.0.0.1"


def endpoint(
    stack: str,
    mode: str,
    delay_us: int | None,
    *,
    certificate: str = "small",
    domain: str | None = None,
    ip: str = HOST,
) -> Endpoint:
    """Return an endpoint on loopback. By default, its name contains the mode."""
    name = domain or f"{mode.replace('_', '-')}.{certificate}.test"
    assert certificate in CHAIN_BYTES
    return Endpoint(
        domain=name,
        ip=ip,
        host="loopback",
        stack=stack,
        mode=mode,
        delay_us=delay_us,
        certificate="small" if certificate == "small" else "large",
    )


class RunningServer:
    """A running server: the port, and the certificate that clients trust."""

    def __init__(self, stack: str, port: int, authority: Path, process: subprocess.Popen[str]) -> None:
        self.stack = stack
        self.port = port
        self.authority = authority
        self.process = process


@contextmanager
def running(
    folder: Path, stack: str, endpoints: list[Endpoint], more: Mapping[str, object] | None = None
) -> Iterator[RunningServer]:
    """Run a server for these endpoints during the block. It must still run at the end of the block.

    `more`: additional configuration.
    """
    port = free_port()
    authority = make_authority(folder)
    names = sorted({"*." + endpoint.domain.partition(".")[2] for endpoint in endpoints})
    certificates = {
        size: issue(authority, f"{stack}-{size}", names, chain_bytes=length)
        for size, length in CHAIN_BYTES.items()
    }
    file = folder / f"{stack}.json"
    file.write_text(json.dumps(configuration(endpoints, certificates, port) | dict(more or {})))
    process = subprocess.Popen(
        stacks.find(stack).command(file), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    killer = threading.Timer(120, process.kill)
    killer.start()
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        assert first == "READY\n", f"{stack} printed {first!r}"
        killer.cancel()
        # The lab does the same for servers with declared delays.
        if stacks.find(stack).realtime:
            with suppress(PermissionError):
                os.sched_setscheduler(process.pid, os.SCHED_FIFO, os.sched_param(5))
        yield RunningServer(stack, port, authority.path, process)
        time.sleep(0.05)
        assert process.poll() is None, f"{stack} exited: {process.stdout.read()}"
    finally:
        killer.cancel()
        process.kill()
        process.wait()
