"""A trial's programs, each in its namespace: client, server, the lab's link, captures."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

from firstflight.system.lines import next_line
from lab.hosts.certificates import issue, make_authority
from testbed.experiment.cell import Cell
from testbed.trials import server_config
from testbed.trials.captures import block_files
from testbed.trials.network import path, wire

NAME = "www.testbed.test"
"""The server's name."""
GRACE_S = 5.0
"""Time until a program has ended, or a client that timed out has answered."""
_READY_S = 60.0
_BUFFER_KB = 32_768
"""A capture's buffer: about 16,000 packets. tcpdump's default, 2 MB, loses packets from a server with GSO."""


class ClientProgram:
    """A client in its namespace; it is restarted after it died."""

    def __init__(self, argv: list[str], folder: Path) -> None:
        self.argv = [*namespace_prefix(path.CLIENT), *argv, f"allow-net={path.NETWORK}"]
        self.folder = folder
        self.version = ""
        self._process = self._start()

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the client's answer, or an answer that reports its absence."""
        if self._process.poll() is not None:
            self._process = self._start()
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            answer = json.loads(_line(self._process, request["timeout_s"] + GRACE_S))
            if isinstance(answer, dict):
                return answer
        except (BrokenPipeError, TimeoutError, ValueError) as error:
            self._process.kill()
            self._process.wait()
            return {"end": "died", "detail": f"the client gave no answer: {error}"}
        return {"end": "died", "detail": "the client's answer is no object"}

    @property
    def pid(self) -> int:
        """Return the process id of the client."""
        return self._process.pid

    def close(self) -> None:
        """End the client by closing the input."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(GRACE_S)

    def _start(self) -> subprocess.Popen[bytes]:
        keys = {
            **os.environ,
            "SSLKEYLOGFILE": str(self.folder / block_files.KEYS),
            "QUIC_GO_DISABLE_GSO": "true",
        }
        with (self.folder / "client.log").open("ab") as log:
            process = subprocess.Popen(
                self.argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, bufsize=0, env=keys
            )
        self.version = str(json.loads(_line(process, _READY_S))["ready"])
        return process


def request(job: dict[str, Any], cell: Cell, roots: Path, port: int = path.PORT) -> dict[str, Any]:
    """Return the request of each trial, to a server on `port` with a certificate that `roots` verifies."""
    several = {"responses": cell.responses, "think_s": cell.think_ms / 1000} if cell.responses > 1 else {}
    return {
        **several,
        "url": f"https://{NAME}/",
        "host": NAME,
        "ip": path.SERVER_IP,
        "port": port,
        "path": "/",
        "user_agent": "firstflight testbed",
        "timeout_s": job["timeout_s"],
        "max_bytes": 1 << 30,
        "roots": str(roots),
        "verify": True,
        "http": job["http"],
    }


def server(job: dict[str, Any], cell: Cell, folder: Path, port: int = path.PORT) -> subprocess.Popen[bytes]:
    """Start the server with the cell's answer and wait until it listens on `port`."""
    files = issue(
        make_authority(folder),
        "server",
        [NAME],
        chain_bytes=cell.certificate_bytes,
        key_kind=cell.certificate_key,
    )
    configuration = server_config.configuration(
        cell, NAME, job["alpn"], files, launch_times=job["launch_times"], log=folder / block_files.SENDER_LOG
    )
    file = folder / "server.json"
    file.write_text(json.dumps({**configuration, "port": port}), encoding="utf-8")
    environment = dict(os.environ)
    if cell.server_qlog:
        logs = folder / block_files.SERVER_LOGS
        logs.mkdir()
        environment["QLOGDIR"] = str(logs)
    with (folder / "server.log").open("wb") as log:
        argv = [*namespace_prefix(path.SERVER), *job["server"], "--config", str(file)]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=log, bufsize=0, env=environment)
    if _line(process, _READY_S).strip() != b"READY":
        raise SystemExit("the server does not listen: see server.log")
    return process


def link(program: str, cell: Cell, folder: Path) -> subprocess.Popen[bytes]:
    """Insert the lab's link into the path, and wait until it delays datagrams."""
    for command in wire.commands():
        run(command)
    file = folder / "link.json"
    file.write_text(json.dumps(wire.configuration(cell, folder / "lateness.csv")), encoding="utf-8")
    with (folder / "link.log").open("wb") as log:
        argv = [*namespace_prefix(wire.NAMESPACE), program, "--config", str(file), "--realtime"]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=log, bufsize=0)
    if _line(process, _READY_S).strip() != b"READY":
        raise SystemExit("the lab's link does not start: see link.log")
    return process


def capture(folder: Path, namespace: str, device: str, name: str, wanted: str) -> subprocess.Popen[bytes]:
    """Start a capture and wait until it captures packets."""
    argv = [*namespace_prefix(namespace), "tcpdump", "-i", device, "--nano", "--immediate-mode", "-U"]
    # While the clock is stopped, a server sends its whole window before tcpdump gets the processor.
    argv += ["-B", str(_BUFFER_KB), "-Z", "root", "-w", str(folder / name), *wanted.split()]
    log = folder / f"{name}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(argv, stderr=out)
    for _ in range(1000):
        if b"listening on" in log.read_bytes():
            return process
        time.sleep(0.01)
    raise SystemExit(f"tcpdump does not start: see {log.name}")


def _line(process: subprocess.Popen[bytes], limit_s: float) -> bytes:
    """Return a program's next line, or its remaining output if it exited; TimeoutError after `limit_s` s."""
    assert process.stdout is not None
    return next_line(process.stdout, limit_s)


def namespace_prefix(namespace: str) -> list[str]:
    """Return the command prefix that runs a command in a namespace."""
    return ["ip", "netns", "exec", namespace]


def run(argv: list[str], given: bytes = b"") -> bytes:
    """Return a command's output; `given` is the input. SystemExit if it fails."""
    done = subprocess.run(argv, input=given, capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(argv)}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout
