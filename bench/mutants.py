"""Test a sample of mutants of the hardest native code and count the ones that the unit tests miss.

    python -m bench.mutants [--count 400] [--seed 11] [--part K/N] [--again] [--out var/mutants]
                            [--result FILE]

A mutant is the code with one changed expression or function (cargo-mutants). The sample is stratified by
file: the share of each file is proportional to its number of mutants. Only unit tests beside the code run, in
a network namespace that has only loopback. Not part of `make bench`: it builds once per mutant, with one core
for each package. `--part 2/5` takes the second of five equal parts of the same sample. `--again` skips the
mutants that an earlier call with the same `--out` caught (use it after adding tests or an interruption).
`--result FILE` writes the counts to FILE. With `--again`, FILE must have the counts of the earlier call; the
mutants that still survive are added to them.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench import mutant_counts, results

RESULT = "mutants"
TREE = Path(__file__).parent.parent
# Package -> pattern of the files to mutate.
PARTS = {
    "firstflight-dissect": r"dissector/native/src/(quic/(connection|recovery|timeline)|output)/",
    "firstflight-prober": r"scanner/native/first_answer/src/(engine|exchange|probes|evidence|finished)",
}
UNIT_TESTS = {"firstflight-dissect": "--lib", "firstflight-prober": "--bins"}
# A mutant may allocate memory without limit: 8 GB of addresses are enough for the compiler.
ISOLATED = (
    *("unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"),
    *("sh", "-c", 'ip link set lo up; ulimit -v 8000000; "$@"', "sh"),
)
# A mutant that hangs may also ignore SIGTERM and keep ports that later mutants need. So it is killed before
# cargo-mutants' own timeout.
RUNNER = """--config=target.'cfg(unix)'.runner='timeout --signal=KILL 50'"""
# cargo-mutants' exit statuses after a complete run: all caught, some missed, some timed out.
WHOLE = (0, 2, 3)
VERDICTS = {"CaughtMutant": "caught", "MissedMutant": "missed", "Timeout": "timeout", "Unviable": "unviable"}


class MutantsError(Exception):
    """A run on mutants did not complete; the message gives the reason."""


def listed(package: str) -> list[dict[str, Any]]:
    """Return cargo-mutants' list of all mutants in a package's parts."""
    argv = ["cargo", "mutants", "--list", "--json", "--package", package]
    done = subprocess.run(argv, cwd=TREE, capture_output=True, text=True, check=True)
    mutants: list[dict[str, Any]] = json.loads(done.stdout)
    return [mutant for mutant in mutants if re.match(PARTS[package], mutant["file"])]


def sample(mutants: Sequence[Mapping[str, Any]], count: int, seed: int) -> list[str]:
    """Return the names of `count` mutants, stratified by file; the same seed returns the same names.

    The share of each file is rounded down; files with the largest remainders get one more mutant.
    """
    by_file: dict[str, list[str]] = defaultdict(list)
    for mutant in mutants:
        by_file[mutant["file"]].append(mutant["name"])
    count = min(count, len(mutants))
    shares = {file: divmod(count * len(names), len(mutants)) for file, names in by_file.items()}
    missing = count - sum(whole for whole, _ in shares.values())
    rounded_up = set(sorted(shares, key=lambda file: (-shares[file][1], file))[:missing])
    source = random.Random(seed)
    names: list[str] = []
    for file in sorted(by_file):
        names += source.sample(sorted(by_file[file]), shares[file][0] + (file in rounded_up))
    return names


def fraction(text: str) -> tuple[int, int]:
    """Return K and N of `K/N`, 1 <= K <= N; raises ArgumentTypeError."""
    match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise argparse.ArgumentTypeError(f"{text} is not a part K/N, for example 2/5")
    return int(match[1]), int(match[2])


def part(names: Sequence[str], index: int, parts: int) -> list[str]:
    """Return part `index` of `parts` in a sample: names number index, index + parts and so on, from 1."""
    return list(names[index - 1 :: parts])


def tested(package: str, names: Sequence[str], out: Path, again: bool) -> dict[str, str]:
    """Run the unit tests on each mutant in a package; return cargo-mutants' verdict by mutant.

    `out` gets cargo-mutants' folder mutants.out, with the tests' output for each mutant. With `again`,
    mutants that an earlier call caught are neither tested nor returned. Raises MutantsError.
    """
    out.mkdir(parents=True, exist_ok=True)
    argv = ["cargo", "mutants", "--package", package, "--test-package", package, "--output", str(out)]
    argv += ["--timeout", "60", "--no-shuffle", "--colors", "never"]
    argv += [f"--cargo-arg={argument}" for argument in (UNIT_TESTS[package], RUNNER)]
    argv += ["--iterate"] if again else []
    argv += [word for name in names for word in ("--re", f"^{re.escape(name)}$")]
    # Debug information of mutants is not used.
    environ = {**os.environ, "CARGO_NET_OFFLINE": "true", "CARGO_PROFILE_DEV_DEBUG": "0"}
    with (out / "mutants.log").open("wb") as log:
        done = subprocess.run([*ISOLATED, *argv], cwd=TREE, check=False, env=environ, stdout=log, stderr=log)
    if done.returncode not in WHOLE:
        raise MutantsError(f"cargo mutants of {package} ended with {done.returncode}: see {out}/mutants.log")
    outcomes = json.loads((out / "mutants.out" / "outcomes.json").read_text())["outcomes"]
    verdicts = {
        outcome["scenario"]["Mutant"]["name"]: VERDICTS[outcome["summary"]]
        for outcome in outcomes
        if outcome["scenario"] != "Baseline"
    }
    # Deleted fields of struct expressions pass every --re.
    return {name: verdict for name, verdict in verdicts.items() if name in set(names)}


def _versions() -> results.Versions:
    """Return the versions of cargo-mutants and of the compiler."""
    versions = {}
    for name, argv in {"cargo-mutants": ("cargo", "mutants"), "rustc": ("rustc",)}.items():
        shown = subprocess.run([*argv, "--version"], cwd=TREE, capture_output=True, text=True, check=True)
        versions[name] = [shown.stdout.split()[1]]
    return {"software": versions}


def main() -> int:
    """Sample, test, print the counts and the mutants that no test noticed."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.mutants", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--out", type=Path, default=Path("var/mutants"))
    parser.add_argument("--part", type=fraction, default=(1, 1), metavar="K/N")
    parser.add_argument("--again", action="store_true")
    results.add_option(parser)
    options = parser.parse_args()
    file = results.begin(parser, options.result, RESULT)
    if options.again and options.result is not None and file.earlier is None:
        parser.error("--result with --again needs a FILE that a call without --again wrote")
    if shutil.which("cargo-mutants") is None:
        print("bench: cargo-mutants is missing: cargo install cargo-mutants --locked", file=sys.stderr)
        return 2
    by_package = {package: listed(package) for package in PARTS}
    everything = [mutant for mutants in by_package.values() for mutant in mutants]
    names = set(part(sample(everything, options.count, options.seed), *options.part))
    options_of_mutants = {
        package: [mutant["name"] for mutant in mutants if mutant["name"] in names]
        for package, mutants in by_package.items()
    }
    total: Counter[str] = Counter()
    by_verdict: dict[str, Counter[str]] = {}
    with ThreadPoolExecutor() as pool:
        runs = {
            package: pool.submit(
                tested,
                package,
                options_of_mutants[package],
                (options.out / package).absolute(),
                options.again,
            )
            for package in PARTS
            if options_of_mutants[package]
        }
    try:
        for package, run in runs.items():
            verdicts = run.result()
            counts = Counter(verdicts.values())
            total += counts
            by_verdict[package] = counts
            print(f"{package}: {len(verdicts)} of {len(by_package[package])} mutants: {dict(counts)}")
            for name in sorted(name for name, verdict in verdicts.items() if verdict == "missed"):
                print(f"  {name}")
    except MutantsError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    # A mutant that does not compile does not count; a mutant that times out counts as noticed.
    judged = total["caught"] + total["timeout"] + total["missed"]
    share = 100 * total["missed"] / max(judged, 1)
    print(f"{total['missed']} of {judged} alive ({share:.1f} %), seed {options.seed}")
    counted = {package: len(mutants) for package, mutants in by_package.items()}
    if options.again and file.earlier is not None:
        lines = mutant_counts.still_alive(file.earlier["lines"], by_verdict)
    else:
        lines = mutant_counts.lines(by_verdict, counted)
    if options.result is not None:
        file.write(lines, _versions(), after_earlier=options.again)
    return 0


if __name__ == "__main__":
    sys.exit(main())
