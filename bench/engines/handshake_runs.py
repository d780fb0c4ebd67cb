"""Runs of the handshake engine on loopback, their cost, and the peer that answers them."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from bench import process
from firstflight.system import binaries
from lab.hosts.certificates import ServerCertificate

PORT, LATE_PORT = 443, 444
# First target address; every target has a different one.
_FIRST = IPv4Address("127.1.0.0")
_SAMPLE_S = 0.2


@dataclass(frozen=True)
class HandshakeRunCost:
    """A run's cost, the engine's summary, and samples of (targets done, in flight, resident MB)."""

    used: process.Used
    summary: dict[str, Any]
    samples: list[tuple[int, int, float]]

    @property
    def done(self) -> int:
        """Completed handshakes."""
        return int(self.summary["outcomes"].get("done", 0))

    @property
    def time_outs(self) -> int:
        """Total number of probe timeouts."""
        return int(self.summary["retransmissions"])

    @property
    def per_cpu_s(self) -> float:
        """Completed handshakes per second of CPU time."""
        return self.done / self.used.cpu_s


@contextmanager
def served(files: ServerCertificate, port: int = PORT, delay_ms: int = 0) -> Iterator[None]:
    """Complete handshakes at all addresses until the block ends; delay responses by `delay_ms`."""
    argv = [str(binaries.find("firstflight-responder")), "--listen", f"0.0.0.0:{port}"]
    argv += ["--chain", str(files.chain), "--key", str(files.key), "--delay-ms", str(delay_ms)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            if server.stdout.readline() != b"READY\n":
                raise SystemExit(f"bench: the peer did not start: {' '.join(argv)}")
            yield
        finally:
            server.kill()


@dataclass(frozen=True)
class HandshakeEngine:
    """Runs the engine in `folder`; `roots`: the certificate of the authority."""

    folder: Path
    roots: Path

    def targets(self, count: int, port: int = PORT) -> Path:
        """Write a list of `count` targets, each with a different name and address."""
        path = self.folder / "targets.csv"
        with path.open("w", encoding="ascii") as out:
            out.write("ip,domain,port\n")
            out.writelines(f"{_FIRST + n},w{n}.bench.test,{port}\n" for n in range(count))
        return path

    def run(self, targets: Path, rate: float, *options: str) -> HandshakeRunCost:
        """Connect to each target once, at most `rate` per second, and remove the records."""
        summary, progress = self.folder / "summary.json", self.folder / "progress.json"
        progress.unlink(missing_ok=True)
        with tempfile.TemporaryDirectory(dir=self.folder) as segments:
            argv = [str(binaries.find("firstflight-handshake")), "--targets", str(targets)]
            argv += ["--allow-net", "127.0.0.0/8", "--per-prefix-rate", "0", "--rate", str(rate)]
            argv += ["--segments", segments, "--summary", str(summary), "--progress", str(progress)]
            argv += options
            if "chain" in options:
                argv += ["--roots", str(self.roots)]
            samples: list[tuple[int, int, float]] = []
            used = process.run(argv, quiet=True, watch=lambda pid: _sample(pid, progress, samples))
        return HandshakeRunCost(used, json.loads(summary.read_text()), samples)


def _sample(pid: int, progress: Path, samples: list[tuple[int, int, float]]) -> None:
    """Add a sample from a running engine, then sleep."""
    try:
        now = json.loads(progress.read_text())
        samples.append((int(now["done"]), int(now["in_flight"]), process.resident_mb(pid)))
    except (OSError, ValueError, IndexError):
        pass  # It has not written yet, or has just exited.
    time.sleep(_SAMPLE_S)
