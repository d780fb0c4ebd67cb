"""Measure the engine of handshakes: `python -m bench handshake_engine`.

The peer is the lab's quiche server on loopback, in a network namespace of its own, with one chain of the
usual size and an ECDSA key, for any name. Each target costs the engine a whole handshake, an HTTP/3 HEAD
request, its response, a close, and records as segments. CPU time is what the kernel charged the engine's
process (user + system, all threads, from start to end); rounds of the kinds take turns, and the figure is the
median of the rounds. One chain for all means that its check costs once, as for all names behind one
certificate. Probe time-outs mean that the server did not keep up: choose a lower --rate then, since they cost
datagrams.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import campaign_world, process
from firstflight.system import binaries
from lab import stacks
from lab.certificates import ServerCertificate, issue, make_authority
from lab.model import Answer, Endpoint
from lab.servers import configuration
from scanner.external import qscanner

HOST, NAMES = "127.0.0.1", "*.bench.test"
# Median of the certificate chains of QUIC services: Nawrocki et al., "On the Interplay between TLS
# Certificates and QUIC Performance" (CoNEXT 2022).
CHAIN_BYTES = 2329
TARGETS, ROUNDS = 20_000, 3
# New connections a second: what a server on the other core keeps up with.
RATE = 1_500
# Kinds of runs: options of the engine, and the goal in handshakes per CPU second.
KINDS: dict[str, tuple[tuple[str, ...], int | None]] = {
    "none": (("--verify", "none"), 6_000),
    "signature": (("--verify", "signature"), 4_000),
    "chain": (("--verify", "chain"), None),
    "none, x25519mlkem768": (("--verify", "none", "--key-share", "x25519mlkem768"), None),
}
IN_FLIGHT, IN_FLIGHT_LIMIT_MB = 10_000, 350
# The response comes so late that as many connections wait for it at LATE_RATE a second.
LATE_MS, LATE_RATE, LATE_TARGETS = 15_000, 1_000, 20_000
QSCANNER_GOAL = 4.0
_PORT, _LATE_PORT = 443, 444
_SAMPLE_S = 0.2


@dataclass(frozen=True)
class Cost:
    """The cost of a run, its own summary, and samples of (targets done, in flight, resident MB)."""

    used: process.Used
    summary: dict[str, Any]
    samples: list[tuple[int, int, float]]

    @property
    def done(self) -> int:
        """Completed handshakes."""
        return int(self.summary["outcomes"].get("done", 0))

    @property
    def per_cpu_s(self) -> float:
        """Completed handshakes per second of CPU time."""
        return self.done / self.used.cpu_s


def main() -> int:
    """Measure and print; return 1 if a goal is missed."""
    parser = argparse.ArgumentParser(prog="bench handshake_engine")
    parser.add_argument("--quick", action="store_true", help="a quarter of the targets, one round, no memory")
    parser.add_argument("--rate", type=float, default=RATE, help="new connections a second")
    parser.add_argument("--targets", type=int, help="instead: one run over so many targets, with its memory")
    parser.add_argument("--qscanner", metavar="PROGRAM", help="measure QScanner beside it")
    options = parser.parse_args()
    campaign_world.enter_namespace("bench.handshake_engine", sys.argv[1:])
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="firstflight-bench-")))
        authority = make_authority(folder)
        files = issue(authority, "bench", [NAMES], chain_bytes=CHAIN_BYTES)
        stack.enter_context(_server(folder, files, _PORT))
        engine = Engine(folder, authority.path, options.rate)
        if options.targets is not None:
            return _long(engine, options.targets)
        targets = TARGETS // 4 if options.quick else TARGETS
        missed = _speed(engine, targets, 1 if options.quick else ROUNDS, options.qscanner)
        if not options.quick:
            stack.enter_context(_server(folder, files, _LATE_PORT, LATE_MS))
            missed += _memory(engine)
    return int(missed > 0)


@contextmanager
def _server(folder: Path, files: ServerCertificate, port: int, delay_ms: int = 0) -> Iterator[None]:
    """Run the lab's quiche server with that chain until the block ends."""
    answer = Answer(status=200, headers=(("server", "bench"),), delay_us=1000 * delay_ms or None)
    endpoint = Endpoint(
        domain="any.bench.test",
        ip=HOST,
        host="loopback",
        stack="quiche",
        mode="wait",
        delay_us=None,
        certificate="small",
        http=answer,
    )
    file = folder / f"server-{port}.json"
    file.write_text(json.dumps(configuration([endpoint], {"small": files}, port)))
    with subprocess.Popen(stacks.find("quiche").command(file), stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            if server.stdout.readline() != b"READY\n":
                raise SystemExit("bench: the lab's quiche server did not start")
            yield
        finally:
            server.kill()


@dataclass(frozen=True)
class Engine:
    """Runs the engine in `folder`; `roots`: the certificate of the authority."""

    folder: Path
    roots: Path
    rate: float

    def targets(self, count: int, port: int = _PORT) -> Path:
        """Write a list of that many targets, each a name of its own."""
        path = self.folder / "targets.csv"
        with path.open("w", encoding="ascii") as out:
            out.write("ip,domain,port\n")
            for n in range(1, count + 1):
                out.write(f"{HOST},w{n}.bench.test,{port}\n")
        return path

    def run(self, targets: Path, *options: str, rate: float | None = None) -> Cost:
        """Connect with the targets once; the records are removed."""
        summary, progress = self.folder / "summary.json", self.folder / "progress.json"
        progress.unlink(missing_ok=True)
        with tempfile.TemporaryDirectory(dir=self.folder) as segments:
            argv = [str(binaries.find("firstflight-handshake")), "--targets", str(targets)]
            argv += ["--allow-net", "127.0.0.0/8", "--per-address-rate", "0", "--per-prefix-rate", "0"]
            argv += ["--segments", segments, "--summary", str(summary), "--progress", str(progress)]
            argv += ["--rate", str(rate or self.rate), *options]
            if "chain" in options:
                argv += ["--roots", str(self.roots)]
            samples: list[tuple[int, int, float]] = []
            used = process.run(argv, quiet=True, watch=lambda pid: _sample(pid, progress, samples))
        return Cost(used, json.loads(summary.read_text()), samples)


def _sample(pid: int, progress: Path, samples: list[tuple[int, int, float]]) -> None:
    """Add a sample of a running engine, then sleep."""
    try:
        now = json.loads(progress.read_text())
        samples.append((int(now["done"]), int(now["in_flight"]), process.resident_mb(pid)))
    except (OSError, ValueError, IndexError):
        pass  # It has not written yet, or has just ended.
    time.sleep(_SAMPLE_S)


def _speed(engine: Engine, targets: int, rounds: int, program: str | None) -> int:
    """Measure the kinds in turn; return how many goals were missed."""
    listed = engine.targets(targets)
    costs: dict[str, list[Cost]] = {kind: [] for kind in KINDS}
    theirs: list[float] = []
    for number in range(rounds):
        for kind, (options, _) in KINDS.items():
            costs[kind].append(engine.run(listed, *options))
        if program is not None:
            theirs.append(_qscanner(engine, listed, program, number))
    missed = 0
    for kind, (_, goal) in KINDS.items():
        middle = statistics.median(cost.per_cpu_s for cost in costs[kind])
        missed += goal is not None and middle < goal
        each = ", ".join(f"{cost.per_cpu_s:,.0f}" for cost in costs[kind])
        again = sum(cost.summary["retransmissions"] for cost in costs[kind])
        print(
            f"{kind}: {middle:,.0f} handshakes with response and record per CPU second ({each}); "
            f"{sum(cost.done for cost in costs[kind]):,} of {rounds * targets:,} done, {again:,} probe "
            f"time-outs" + (f"; goal {goal:,}" if goal else "") + f"; {process.load()}",
            flush=True,
        )
    if theirs:
        ours = statistics.median(cost.per_cpu_s for cost in costs["signature"])
        ratio = ours / statistics.median(theirs)
        missed += ratio < QSCANNER_GOAL
        print(
            f"QScanner: {statistics.median(theirs):,.0f} per CPU second; ours with the signature checked "
            f"makes {ratio:.1f} times as many; goal {QSCANNER_GOAL:.0f}"
        )
    return missed


def _qscanner(engine: Engine, listed: Path, program: str, number: int) -> float:
    """Run QScanner over the same targets; return its completed handshakes per CPU second."""
    given, out = engine.folder / "qscanner.csv", engine.folder / f"qscanner-{number}"
    with given.open("w", encoding="ascii") as file:
        file.write("saddr,hostname,port\n")
        file.writelines(listed.read_text().splitlines(keepends=True)[1:])
    scan = qscanner.Scan(out, rate=engine.rate, program=program)
    used = process.run(qscanner.arguments(scan, given), quiet=True)
    (results,) = out.glob("quic_connection_info*.csv")
    with results.open(encoding="utf-8") as rows:
        done = sum(1 for _ in rows) - 1
    return done / used.cpu_s


def _memory(engine: Engine) -> int:
    """Measure memory with late responses; return 1 if the goal is missed."""
    listed = engine.targets(LATE_TARGETS, _LATE_PORT)
    cost = engine.run(listed, "--timeout", "60", rate=LATE_RATE)
    most = max((in_flight for _, in_flight, _ in cost.samples), default=0)
    print(
        f"memory: {cost.used.peak_mb:.0f} MB at most resident with {most:,} in flight, each a complete "
        f"handshake that waits for its response ({cost.done:,} of {LATE_TARGETS:,} done); goal "
        f"{IN_FLIGHT_LIMIT_MB} MB at {IN_FLIGHT:,}; {process.load()}",
        flush=True,
    )
    return int(cost.used.peak_mb > IN_FLIGHT_LIMIT_MB or most < 0.95 * IN_FLIGHT)


def _long(engine: Engine, count: int) -> int:
    """Measure one long run; return 1 if memory grows in its second half, or targets are missing."""
    cost = engine.run(engine.targets(count), "--verify", "none")
    print(
        f"{count:,} targets: {cost.done:,} done, {cost.per_cpu_s:,.0f} per CPU second "
        f"({cost.used.cpu_s:.0f} CPU s, {cost.used.wall_s:.0f} s), {cost.used.peak_mb:.0f} MB at most; "
        f"{process.load()}"
    )
    marks = [count // 4, count // 2, count]
    for mark in marks:
        done, in_flight, resident = min(cost.samples, key=lambda sample: abs(sample[0] - mark))
        print(f"  after {done:,}: {resident:.0f} MB resident, {in_flight:,} in flight")
    half = [resident for done, _, resident in cost.samples if done >= count // 2]
    first = [resident for done, _, resident in cost.samples if count // 4 <= done < count // 2]
    return int(cost.done < count or max(half) > 1.1 * max(first))


if __name__ == "__main__":
    sys.exit(main())
