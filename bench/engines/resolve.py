"""Compare the resolve engine with zdns and hickory-resolver: `python -m bench resolve`.

All three resolve the same names with three questions each (A, AAAA, HTTPS), from the same responder on
loopback in a separate network namespace; about 92 of 100 names have an address. CPU time is the time that the
kernel charges each program's process (user + system, all threads, from start to end). Their output differs:
the resolve engine and zdns write JSON lines with every record; hickory-resolver is a library, and its program
prints only the number of records. Before the measurement, Go and cargo build the peers from their registries.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench import process, results
from bench.campaigns import campaign_world
from firstflight.system import binaries

HERE = Path(__file__).parents[1] / "peers"
RESULT = "resolver"
RESOLVER = "127.0.0.1"
CONCURRENCY = 256
NAMES = 100_000
# Names per CPU second.
LIMIT = 25_000
OURS = "firstflight resolve, JSON lines"


def main() -> int:
    """Measure and print; return 1 if the resolve engine misses its limit."""
    parser = argparse.ArgumentParser(prog="bench resolve")
    parser.add_argument("--names", type=int, default=NAMES, help="names for our engine; a peer gets a fifth")
    parser.add_argument("--rounds", type=int, default=3, help="times that each program runs, in turns")
    parser.add_argument("--peers", type=Path, help=argparse.SUPPRESS)
    results.add_option(parser)
    options = parser.parse_args()
    if options.peers is None:
        results.begin(parser, options.result, RESULT)  # refuses a wrong file before building
        # Build before entering the namespace, which cannot reach the registries.
        with tempfile.TemporaryDirectory(prefix="firstflight-bench-") as name:
            _build(Path(name))
            again = [sys.executable, "-m", "bench.engines.resolve", "--peers", name, *sys.argv[1:]]
            return subprocess.run(again, check=False).returncode
    file = results.begin(parser, options.result, RESULT, sys.argv[3:])
    campaign_world.enter_namespace("bench.engines.resolve", sys.argv[1:])
    folder = options.peers
    names, few = folder / "names", folder / "few"
    for path, count in ((names, options.names), (few, options.names // 5)):
        # Line by line: the kernel also charges the programs the memory of this process.
        with path.open("w", encoding="ascii") as out:
            out.writelines(f"{name}\n" for name in campaign_world.made_names(count))
    programs: dict[str, tuple[Path, Callable[[], list[str]]]] = {
        OURS: (names, lambda: _own_argv(names, ["--format", "jsonl"])),
        "firstflight resolve, segments": (
            names,
            lambda: _own_argv(names, ["--segments", tempfile.mkdtemp(dir=folder)]),
        ),
        "zdns": (few, lambda: _zdns(folder, few)),
        "hickory-resolver": (few, lambda: [str(folder / "hickory"), str(few), RESOLVER, str(CONCURRENCY)]),
    }
    rates: dict[str, list[float]] = {program: [] for program in programs}
    peak_mb = dict.fromkeys(programs, 0.0)
    with campaign_world.responders():
        for _ in range(options.rounds):
            for program, (path, argv) in programs.items():
                count = len(path.read_text(encoding="ascii").splitlines())
                out = folder / "out"
                used = process.run(argv(), out=out, quiet=True)
                print(
                    f"{program}: {count / used.cpu_s:,.0f} names per CPU second ({count:,} names, "
                    f"{used.cpu_s:.2f} CPU s, {used.user_s:.2f} user, {used.peak_mb:.0f} MB, "
                    f"{_answered(out)}); {process.load()}",
                    flush=True,
                )
                rates[program].append(count / used.cpu_s)
                peak_mb[program] = max(peak_mb[program], used.peak_mb)
    best = {program: max(found) for program, found in rates.items()}
    print("best of each: " + "; ".join(f"{program} {rate:,.0f}" for program, rate in best.items()))
    print(f"  limit {LIMIT:,} for JSON lines with every record")
    values = results.Values()
    for program, found in rates.items():
        limit = LIMIT if program == OURS else None
        values.add(f"{program}: names per CPU second", best[program], least=limit, of=found)
        values.add(f"{program}: resident memory", peak_mb[program], "MB")
    file.write(values.lines, results.packages())
    return int(best[OURS] < LIMIT)


def _own_argv(names: Path, output: list[str]) -> list[str]:
    options = ["--resolver", RESOLVER, "--rate", "0", "--concurrency", str(CONCURRENCY), *output]
    return [str(binaries.find("firstflight-resolve")), "--names", str(names), *options]


def _zdns(folder: Path, names: Path) -> list[str]:
    modules = folder / "modules.ini"
    modules.write_text("[Application Options]\n[A]\n[AAAA]\n[HTTPS]\n", encoding="ascii")
    options = ["--name-servers", RESOLVER, "--threads", str(CONCURRENCY), "--quiet", "--verbosity", "1"]
    return [str(folder / "zdns"), "MULTIPLE", "-c", str(modules), "-f", str(names), *options]


def _answered(out: Path) -> str:
    """Return the number of lines that a program printed, for display; 0 if it writes files."""
    with out.open("rb") as lines:
        count = sum(1 for _ in lines)
    return f"{count:,} lines" if count else "no lines"


def _build(folder: Path) -> None:
    """Build the peers into `folder`; SystemExit if that fails."""
    go = {**os.environ, "PATH": f"{os.environ.get('PATH', os.defpath)}:/usr/local/go/bin"}
    built = Path(os.environ.get("CARGO_TARGET_DIR", HERE.parents[1] / "target")) / "peers"
    cargo = ["cargo", "build", "--release", "--quiet", "--locked", "--target-dir", str(built)]
    for program, argv, environment in (
        ("zdns", ["go", "build", "-o", str(folder / "zdns"), "."], go),
        ("hickory", cargo, dict(os.environ)),
    ):
        print(f"building {program} ...", flush=True)
        if subprocess.run(argv, cwd=HERE / program, env=environment, check=False).returncode != 0:
            raise SystemExit(
                f"bench: {program} cannot be built; it comes from the registries of Go and cargo"
            )
    (folder / "hickory").symlink_to(built / "release" / "bench-hickory")


if __name__ == "__main__":
    sys.exit(main())
