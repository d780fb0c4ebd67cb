"""Measure the handshake engine: `python -m bench handshake_engine`.

The peer (bench/responder, quinn-proto) completes handshakes at every address of 127.0.0.0/8, in a separate
network namespace. For any name it sends one chain of the usual size with an ECDSA key. Each target has a
different name and address. For each target, the engine does a whole handshake, sends an HTTP/3 HEAD request,
reads the response, closes, and writes records as segments. CPU time is the time that the kernel charges the
engine's process (user + system, all threads, from start to end). Rounds of the kinds take turns; the result
is the median of the rounds. Since all targets have one chain, the engine verifies it once, as it does for all
names with the same certificate.

Probe timeouts mean that the peer is too slow, and cost datagrams. So the bench first finds a rate: it tries
RATES from the fastest down, until a short run has few timeouts (`--rate` sets the rate). On two idle cores
the bench takes about three minutes, `--quick` half a minute, `--targets 1000000` seven minutes.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from bench import process, results
from bench.campaigns import campaign_world
from bench.engines.handshake_runs import LATE_PORT, HandshakeEngine, HandshakeRunCost, served
from lab.hosts.certificates import issue, make_authority
from scanner.external import qscanner

RESULT = "handshakes"
NAMES = "*.bench.test"
# Median of the certificate chains of QUIC services: Nawrocki et al., "On the Interplay between TLS
# Certificates and QUIC Performance" (CoNEXT 2022).
CHAIN_BYTES = 2329
TARGETS, ROUNDS = 20_000, 3
# New connections per second, the fastest first. `_rate` tries each rate for four seconds and takes the last
# one without a trial. The peer uses 240 us of CPU time per handshake, so the first rate uses two thirds of a
# core. A rate is accepted with at most HARDLY_ANY probe timeouts per handshake.
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
# Responses are LATE_MS late, so that at LATE_RATE per second LATE_MS / 1000 * LATE_RATE connections wait.
LATE_MS, LATE_RATE, LATE_TARGETS = 15_000, 1_000, 20_000
# Memory of a long run is flat if its second half uses at most FLAT times the memory of the quarter before.
FLAT = 1.1
QSCANNER_GOAL = 4.0


def main() -> int:
    """Measure and print; return 1 if a goal is missed."""
    parser = argparse.ArgumentParser(prog="bench handshake_engine")
    parser.add_argument("--quick", action="store_true", help="a quarter of the targets, one round, no memory")
    parser.add_argument(
        "--rate", type=float, help="new connections per second (default: what the peer can serve)"
    )
    parser.add_argument("--targets", type=int, help="instead: one run over N targets, with its memory")
    parser.add_argument("--qscanner", metavar="PROGRAM", help="also measure QScanner")
    results.add_option(parser)
    options = parser.parse_args()
    file = results.begin(parser, options.result, RESULT)
    if options.qscanner is not None and shutil.which(options.qscanner) is None:
        parser.error(
            f"--qscanner: there is no program {options.qscanner}; it builds from a checkout with Go 1.18"
        )
    campaign_world.enter_namespace("bench.engines.handshake_engine", sys.argv[1:])
    values = results.Values()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="firstflight-bench-")))
        authority = make_authority(folder)
        files = issue(authority, "bench", [NAMES], chain_bytes=CHAIN_BYTES)
        stack.enter_context(served(files))
        engine = HandshakeEngine(folder, authority.path)
        rate = options.rate or _rate(engine)
        if options.targets is not None:
            missed = _long(engine, options.targets, rate, values)
        else:
            targets = TARGETS // 4 if options.quick else TARGETS
            missed = _speed(engine, targets, 1 if options.quick else ROUNDS, rate, options.qscanner, values)
            if not options.quick:
                stack.enter_context(served(files, LATE_PORT, LATE_MS))
                missed += _memory(engine, values)
            print("memory of a long run (goal flat): measured by --targets 1000000 (seven minutes)")
    file.write(values.lines, results.packages())
    return int(missed > 0)


def _rate(engine: HandshakeEngine) -> float:
    """Find the rate that the peer can serve on this machine."""
    for rate in RATES[:-1]:
        targets_file = engine.targets(4 * rate)
        cost = engine.run(targets_file, rate, "--verify", "none")
        if cost.done == 4 * rate and cost.time_outs <= HARDLY_ANY * cost.done:
            break
    else:
        rate = RATES[-1]
    print(f"at most {rate:,} new connections a second; {process.load()}", flush=True)
    return rate


def _goal(text: str, met: bool) -> str:
    return f"goal {text}: {'met' if met else 'not met'}"


def _speed(
    engine: HandshakeEngine,
    targets: int,
    rounds: int,
    rate: float,
    program: str | None,
    values: results.Values,
) -> int:
    """Measure the kinds in turn; return the number of missed goals."""
    targets_file = engine.targets(targets)
    costs: dict[str, list[HandshakeRunCost]] = {kind: [] for kind in KINDS}
    peer_rates: list[float] = []
    for number in range(rounds):
        for kind, (options, _) in KINDS.items():
            costs[kind].append(engine.run(targets_file, rate, *options))
        if program is not None:
            peer_rates.append(_qscanner(engine, targets_file, rate, program, number))
    missed = 0
    for kind, (_, goal) in KINDS.items():
        found = [cost.per_cpu_s for cost in costs[kind]]
        middle = statistics.median(found)
        text = f"handshakes per CPU second, --verify {kind}"
        missed += not values.add(text, middle, least=goal, of=found)
        rates = ", ".join(f"{per_cpu_s:,.0f}" for per_cpu_s in found)
        print(
            f"{kind}: {middle:,.0f} handshakes with response and record per CPU second ({rates}); "
            f"{sum(cost.done for cost in costs[kind]):,} of {rounds * targets:,} done, "
            f"{sum(cost.time_outs for cost in costs[kind]):,} probe time-outs; "
            + (f"{_goal(f'{goal:,}', middle >= goal)}; " if goal else "")
            + process.load(),
            flush=True,
        )
    if peer_rates:
        ours = statistics.median(cost.per_cpu_s for cost in costs["signature"])
        ratio = ours / statistics.median(peer_rates)
        values.add("QScanner: handshakes per CPU second", statistics.median(peer_rates), of=peer_rates)
        missed += not values.add(
            "ours with the signature checked, compared with QScanner", ratio, "times", least=QSCANNER_GOAL
        )
        print(
            f"QScanner: {statistics.median(peer_rates):,.0f} per CPU second; ours with the signature checked "
            f"makes {ratio:.1f} times as many; {_goal(f'{QSCANNER_GOAL:.0f}', ratio >= QSCANNER_GOAL)}"
        )
    return missed


def _qscanner(engine: HandshakeEngine, targets_file: Path, rate: float, program: str, number: int) -> float:
    """Run QScanner over the same targets; return its completed handshakes per CPU second."""
    given, out = engine.folder / "qscanner.csv", engine.folder / f"qscanner-{number}"
    with given.open("w", encoding="ascii") as file:
        file.write("saddr,hostname,port\n")
        file.writelines(targets_file.read_text().splitlines(keepends=True)[1:])
    scan = qscanner.ScanOptions(out, rate=rate, program=program)
    used = process.run(qscanner.arguments(scan, given), quiet=True)
    results = [*out.glob("quic_connection_info*.csv")]
    if len(results) != 1:
        raise SystemExit(f"bench: {program} wrote {len(results)} files quic_connection_info*.csv, not one")
    with results[0].open(encoding="utf-8") as rows:
        done = sum(1 for _ in rows) - 1
    return done / used.cpu_s


def _memory(engine: HandshakeEngine, values: results.Values) -> int:
    """Measure memory with late responses; return 1 if the goal is missed."""
    targets_file = engine.targets(LATE_TARGETS, LATE_PORT)
    cost = engine.run(targets_file, LATE_RATE, "--timeout", "60")
    most = max((in_flight for _, in_flight, _ in cost.samples), default=0)
    enough = most >= 0.95 * IN_FLIGHT
    text = f"resident memory with {most:,} connections that wait for a response"
    met = values.add(text, cost.used.peak_mb, "MB", most=IN_FLIGHT_LIMIT_MB) and enough
    print(
        f"memory: {cost.used.peak_mb:.0f} MB at most resident with {most:,} in flight, each a complete "
        f"handshake that waits for its response ({cost.done:,} of {LATE_TARGETS:,} done); "
        f"{_goal(f'{IN_FLIGHT_LIMIT_MB} MB at {IN_FLIGHT:,}', met)}; {process.load()}",
        flush=True,
    )
    return int(not met)


def _long(engine: HandshakeEngine, count: int, rate: float, values: results.Values) -> int:
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
    values.add(f"handshakes per CPU second over {count:,} targets", cost.per_cpu_s)
    values.add(f"resident memory with {count:,} targets", cost.used.peak_mb, "MB")
    text = "memory of the second half, compared with the quarter before"
    met = values.add(text, growth, "times", most=FLAT) and cost.done == count
    text = f"all done, memory of the second half at most {FLAT} times that of the quarter before"
    print(f"  {growth:.2f} times; {_goal(text, met)}")
    return int(not met)


if __name__ == "__main__":
    sys.exit(main())
