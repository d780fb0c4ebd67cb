"""Draws a sample of mutants of the hardest native code and counts those that the unit tests do not notice.

    python -m bench.mutants [--count 400] [--seed 11] [--out var/mutants]

A mutant is the code with one expression or function changed (cargo-mutants). The sample is stratified by
file: each file has a share by its number of mutants. Only unit tests beside the code run, in a network
namespace with loopback alone. Not part of `make bench`: it builds once per mutant.
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
from pathlib import Path
from typing import Any

TREE = Path(__file__).parent.parent
# Package -> pattern of the files whose mutants are drawn.
PARTS = {
    "firstflight-dissect": r"dissector/native/src/(quic/(connection|recovery|timeline)|output)/",
    "firstflight-prober": r"scanner/native/first_answer/src/(engine|exchange|probes|evidence|finished)",
}
UNIT_TESTS = {"firstflight-dissect": ("--lib", "--bins"), "firstflight-prober": ("--bins",)}
ISOLATED = ("unshare", "--net", "sh", "-c", 'ip link set lo up; exec "$@"', "sh")


def listed(package: str) -> list[dict[str, Any]]:
    """Return cargo-mutants' list of all mutants of a package's parts."""
    argv = ["cargo", "mutants", "--list", "--json", "--package", package]
    done = subprocess.run(argv, cwd=TREE, capture_output=True, text=True, check=True)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return [mutant for mutant in found if re.match(PARTS[package], mutant["file"])]


def drawn(mutants: Sequence[Mapping[str, Any]], count: int, seed: int) -> list[str]:
    """Return the names of about `count` mutants, stratified by file, the same ones for the same seed."""
    by_file: dict[str, list[str]] = defaultdict(list)
    for mutant in mutants:
        by_file[mutant["file"]].append(mutant["name"])
    source = random.Random(seed)
    names: list[str] = []
    for file in sorted(by_file):
        share = max(1, round(count * len(by_file[file]) / len(mutants)))
        names += source.sample(sorted(by_file[file]), min(share, len(by_file[file])))
    return names


def tested(package: str, names: Sequence[str], out: Path) -> Counter[str]:
    """Run the unit tests on each mutant; return the number of mutants by cargo-mutants' verdict.

    `out` gets missed.txt, caught.txt, timeout.txt and unviable.txt.
    """
    argv = ["cargo", "mutants", "--package", package, "--test-package", package, "--output", str(out)]
    argv += ["--jobs", str(os.cpu_count() or 1), "--timeout", "60", "--no-shuffle", "--colors", "never"]
    argv += [f"--cargo-test-arg={where}" for where in UNIT_TESTS[package]]
    argv += [word for name in names for word in ("--re", f"^{re.escape(name)}$")]
    subprocess.run([*ISOLATED, *argv], cwd=TREE, check=False)
    verdicts = ("caught", "missed", "timeout", "unviable")
    files = {verdict: out / "mutants.out" / f"{verdict}.txt" for verdict in verdicts}
    return Counter({verdict: len(path.read_text().splitlines()) for verdict, path in files.items()})


def main() -> int:
    """Draw, test, print the counts and the mutants that stayed alive."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.mutants", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--out", type=Path, default=Path("var/mutants"))
    options = parser.parse_args()
    if shutil.which("cargo-mutants") is None:
        print("bench: cargo-mutants is missing: cargo install cargo-mutants --locked", file=sys.stderr)
        return 2
    found = {package: listed(package) for package in PARTS}
    everything = [mutant for mutants in found.values() for mutant in mutants]
    names = set(drawn(everything, options.count, options.seed))
    total: Counter[str] = Counter()
    for package, mutants in found.items():
        own = [mutant["name"] for mutant in mutants if mutant["name"] in names]
        out = (options.out / package).absolute()
        out.mkdir(parents=True, exist_ok=True)
        counts = tested(package, own, out)
        total += counts
        print(f"{package}: {len(own)} of {len(mutants)} mutants: {dict(counts)}")
        print((out / "mutants.out" / "missed.txt").read_text(), end="")
    # What does not compile is no mutant; what runs out of time is noticed.
    judged = total["caught"] + total["timeout"] + total["missed"]
    print(
        f"{total['missed']} of {judged} alive ({100 * total['missed'] / judged:.1f} %), seed {options.seed}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
