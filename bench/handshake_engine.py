"""Measure the engine of handshakes: `python -m bench handshake_engine`.

The peer (bench/responder, quinn-proto) completes handshakes at every address of 127.0.0.0/8, in a network
namespace of its own, with one chain of the usual size and an ECDSA key, for any name; each target is a name
and an address of its own. Each costs the engine a whole handshake, an HTTP/3 HEAD request, its response, a
close, and records as segments. CPU time is what the kernel charged the engine's process (user + system, all
threads, from start to end); rounds of the kinds take turns, and the figure is the median of the rounds. One
chain for all means that its check costs once, as for all names behind one certificate.

Probe time-outs mean that the peer did not keep up, and cost datagrams. So the rate is found first: from the
first of RATES down, until a short run has hardly any (`--rate` sets it). On two idle cores all takes some
three minutes, `--quick` half a minute, `--targets 1000000` seven minutes.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from bench import campaign_world, process
from bench.handshake_runs import LATE_PORT, Cost, Engine, served
from lab.certificates import issue, make_authority
from scanner.external import qscanner

NAMES = "*.bench.test"
# Median of the certificate chains of QUIC services: Nawrocki et al., "On the Interplay between TLS
# Certificates and QUIC Performance" (CoNEXT 2022).
CHAIN_BYTES = 2329
TARGETS, ROUNDS = 20_000, 3
# New connections a second, the fastest first, each for as many targets as four seconds begin; the last
# is taken in any case. The peer takes 240 us of CPU time for a handshake, so the first is a core's two
# thirds. At most so many probe time-outs per handshake are hardly any.
RATES = (2_500, 1_700, 1_100, 700, 450, 300, 200)
HARDLY_ANY = 0.01
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
# Memory of a long run is flat if its second half needs at most so many times what the quarter before did.
FLAT = 1.1
QSCANNER_GOAL = 4.0


def main() -> int:
    """Measure and print; return 1 if a goal is missed."""
    parser = argparse.ArgumentParser(prog="bench handshake_engine")
    parser.add_argument("--quick", action="store_true", help="a quarter of the targets, one round, no memory")
    parser.add_argument("--rate", type=float, help="new connections a second (default: as the peer keeps up)")
    parser.add_argument("--targets", type=int, help="instead: one run over so many targets, with its memory")
    parser.add_argument("--qscanner", metavar="PROGRAM", help="measure QScanner beside it")
    options = parser.parse_args()
    if options.qscanner is not None and shutil.which(options.qscanner) is None:
        parser.error(
            f"--qscanner: there is no program {options.qscanner}; it builds from a checkout with Go 1.18"
        )
    campaign_world.enter_namespace("bench.handshake_engine", sys.argv[1:])
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="firstflight-bench-")))
        authority = make_authority(folder)
        files = issue(authority, "bench", [NAMES], chain_bytes=CHAIN_BYTES)
        stack.enter_context(served(files))
        engine = Engine(folder, authority.path)
        rate = options.rate or _rate(engine)
        if options.targets is not None:
            return _long(engine, options.targets, rate)
        targets = TARGETS // 4 if options.quick else TARGETS
        missed = _speed(engine, targets, 1 if options.quick else ROUNDS, rate, options.qscanner)
        if not options.quick:
            stack.enter_context(served(files, LATE_PORT, LATE_MS))
            missed += _memory(engine)
        print("memory of a long run (goal flat): not measured here, but by --targets 1000000 (seven minutes)")
    return int(missed > 0)


def _rate(engine: Engine) -> float:
    """Find the rate that the peer keeps up with, here and now."""
    for rate in RATES[:-1]:
        listed = engine.targets(4 * rate)
        cost = engine.run(listed, rate, "--verify", "none")
        if cost.done == 4 * rate and cost.time_outs <= HARDLY_ANY * cost.done:
            break
    else:
        rate = RATES[-1]
    print(f"at most {rate:,} new connections a second; {process.load()}", flush=True)
    return rate


def _goal(text: str, met: bool) -> str:
    return f"goal {text}: {'met' if met else 'not met'}"


def _speed(engine: Engine, targets: int, rounds: int, rate: float, program: str | None) -> int:
    """Measure the kinds in turn; return how many goals were missed."""
    listed = engine.targets(targets)
    costs: dict[str, list[Cost]] = {kind: [] for kind in KINDS}
    theirs: list[float] = []
    for number in range(rounds):
        for kind, (options, _) in KINDS.items():
            costs[kind].append(engine.run(listed, rate, *options))
        if program is not None:
            theirs.append(_qscanner(engine, listed, rate, program, number))
    missed = 0
    for kind, (_, goal) in KINDS.items():
        middle = statistics.median(cost.per_cpu_s for cost in costs[kind])
        missed += goal is not None and middle < goal
        each = ", ".join(f"{cost.per_cpu_s:,.0f}" for cost in costs[kind])
        print(
            f"{kind}: {middle:,.0f} handshakes with response and record per CPU second ({each}); "
            f"{sum(cost.done for cost in costs[kind]):,} of {rounds * targets:,} done, "
            f"{sum(cost.time_outs for cost in costs[kind]):,} probe time-outs; "
            + (f"{_goal(f'{goal:,}', middle >= goal)}; " if goal else "")
            + process.load(),
            flush=True,
        )
    if theirs:
        ours = statistics.median(cost.per_cpu_s for cost in costs["signature"])
        ratio = ours / statistics.median(theirs)
        missed += ratio < QSCANNER_GOAL
        print(
            f"QScanner: {statistics.median(theirs):,.0f} per CPU second; ours with the signature checked "
            f"makes {ratio:.1f} times as many; {_goal(f'{QSCANNER_GOAL:.0f}', ratio >= QSCANNER_GOAL)}"
        )
    return missed


def _qscanner(engine: Engine, listed: Path, rate: float, program: str, number: int) -> float:
    """Run QScanner over the same targets; return its completed handshakes per CPU second."""
    given, out = engine.folder / "qscanner.csv", engine.folder / f"qscanner-{number}"
    with given.open("w", encoding="ascii") as file:
        file.write("saddr,hostname,port\n")
        file.writelines(listed.read_text().splitlines(keepends=True)[1:])
    scan = qscanner.Scan(out, rate=rate, program=program)
    used = process.run(qscanner.arguments(scan, given), quiet=True)
    results = [*out.glob("quic_connection_info*.csv")]
    if len(results) != 1:
        raise SystemExit(f"bench: {program} wrote {len(results)} files quic_connection_info*.csv, not one")
    with results[0].open(encoding="utf-8") as rows:
        done = sum(1 for _ in rows) - 1
    return done / used.cpu_s


def _memory(engine: Engine) -> int:
    """Measure memory with late responses; return 1 if the goal is missed."""
    listed = engine.targets(LATE_TARGETS, LATE_PORT)
    cost = engine.run(listed, LATE_RATE, "--timeout", "60")
    most = max((in_flight for _, in_flight, _ in cost.samples), default=0)
    met = cost.used.peak_mb <= IN_FLIGHT_LIMIT_MB and most >= 0.95 * IN_FLIGHT
    print(
        f"memory: {cost.used.peak_mb:.0f} MB at most resident with {most:,} in flight, each a complete "
        f"handshake that waits for its response ({cost.done:,} of {LATE_TARGETS:,} done); "
        f"{_goal(f'{IN_FLIGHT_LIMIT_MB} MB at {IN_FLIGHT:,}', met)}; {process.load()}",
        flush=True,
    )
    return int(not met)


def _long(engine: Engine, count: int, rate: float) -> int:
    """Measure one long run; return 1 if memory grows in its second half, or targets are missing."""
    cost = engine.run(engine.targets(count), rate, "--verify", "none")
    print(
        f"{count:,} targets: {cost.done:,} done, {cost.per_cpu_s:,.0f} per CPU second "
        f"({cost.used.cpu_s:.0f} CPU s, {cost.used.wall_s:.0f} s), {cost.time_outs:,} probe time-outs, "
        f"{cost.used.peak_mb:.0f} MB at most; {process.load()}"
    )
    for mark in (count // 4, count // 2, count):
        done, in_flight, resident = min(cost.samples, key=lambda sample: abs(sample[0] - mark))
        print(f"  after {done:,}: {resident:.0f} MB resident, {in_flight:,} in flight")
    half = [resident for done, _, resident in cost.samples if done >= count // 2]
    quarter = [resident for done, _, resident in cost.samples if count // 4 <= done < count // 2]
    if not half or not quarter:
        raise SystemExit("bench: too few targets to say how memory grows: give at least 20,000")
    growth = max(half) / max(quarter)
    met = cost.done == count and growth <= FLAT
    text = f"all done, memory of the second half at most {FLAT} times that of the quarter before"
    print(f"  {growth:.2f} times; {_goal(text, met)}")
    return int(not met)


if __name__ == "__main__":
    sys.exit(main())
