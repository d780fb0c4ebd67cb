"""Test a sample of mutants of the Python stages and count the ones that the unit tests miss.

    python -m bench.python_mutants [--count 200] [--seed 11] [--commit HEAD] [--out var/python-mutants]

Mutants are from cosmic-ray: one changed operator, number, condition or exception. The sample is stratified by
file. For each mutant, only the unit tests that execute its line run, the tests with the fewest lines first;
pytest-cov records these tests. A mutant on a line that no unit test executes is "not reached": tests in a lab
may still notice it. The mutated tree is a clone of `--commit` below `--out`. Not part of `make bench`,
because it runs pytest once per mutant. Needs `pip install cosmic-ray==8.7.0 pytest-cov==7.1.0`.
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
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from bench.mutants import TREE, MutantsError, sample
from tests import drawn

PARTS = ("scanner", "crawler", "downloader", "dissector", "store")
TIMEOUT_S = 300  # the unit tests of a line take much less: a mutant that hangs is caught
MOST_TESTS = 60  # per mutant
PACKAGES = "cosmic-ray==8.7.0 pytest-cov==7.1.0"


@dataclass(frozen=True)
class Mutant:
    """One change: `operator` applied to its `occurrence`-th place in `file`, which starts in `line`."""

    file: str
    operator: str
    occurrence: int
    line: int

    @property
    def name(self) -> str:
        """A name that is unique in the tree."""
        return f"{self.file}:{self.line} {self.operator} {self.occurrence}"


def mutants(file: Path, name: str, seed: int) -> list[Mutant]:
    """Return one of cosmic-ray's mutants for each place in a file and kind of change, drawn by `seed`.

    `|` is left out: nearly all are in annotations, which nothing evaluates.
    """
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator, operator_names

    nodes = list(ast_nodes(get_ast(file.read_text(encoding="utf-8"))))
    places: dict[tuple[str, int, int], list[Mutant]] = defaultdict(list)
    for operator_name in sorted(operator_names()):
        operator_class = get_operator(operator_name)
        kind = "_".join(operator_name.split("_")[:2])
        if operator_class.arguments() or kind.endswith("_BitOr"):
            continue
        operator = operator_class()
        starts = [start for node in nodes for start, _ in operator.mutation_positions(node)]
        for occurrence, (line, column) in enumerate(starts):
            places[kind, line, column].append(Mutant(name, operator_name, occurrence, line))
    source = random.Random(f"{seed} {name}")
    return [source.choice(found) for _, found in sorted(places.items())]


def changed(source: str, mutant: Mutant) -> str:
    """Return the source with the mutant's change."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    code: str | None = mutate_code(source, get_operator(mutant.operator)(), mutant.occurrence)
    if code is None:
        raise MutantsError(f"{mutant.name} changes nothing")
    return code


def covered(clone: Path) -> dict[tuple[str, int], list[str]]:
    """Run all unit tests; return for each executed file and line its tests, the most specific first.

    Prints and excludes tests that fail on the unchanged tree. Raises MutantsError if pytest stops.
    """
    from coverage import CoverageData

    argv = ["-m", "unit", "-n", "2", "--cov-context=test", "--cov-report=", *(f"--cov={p}" for p in PARTS)]
    done = _pytest(clone, argv, timeout_s=None)
    if done.returncode not in (0, 1):
        raise MutantsError(f"the unit tests do not run on the unchanged tree:\n{done.stdout[-3000:]}")
    failed = failed_tests(done.stdout)
    for test in sorted(failed):
        print(f"not used, because it fails without a mutant: {test}")
    data = CoverageData(str(clone / ".coverage"))
    data.read()
    tests: dict[tuple[str, int], set[str]] = defaultdict(set)
    lines: Counter[str] = Counter()
    for file in data.measured_files():
        for line, contexts in data.contexts_by_lineno(file).items():
            found = {context.rpartition("|")[0] for context in contexts} - {""} - failed
            tests[str(Path(file).relative_to(clone)), line] |= found
            lines.update(found)
    return {place: sorted(found, key=lambda test: (lines[test], test)) for place, found in tests.items()}


def failed_tests(output: str) -> set[str]:
    """Return the tests in pytest's summary of failures and errors; their names may contain spaces."""
    return set(re.findall(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", output, re.MULTILINE))


def verdict(clone: Path, mutant: Mutant, tests: Sequence[str]) -> str:
    """Run the tests that cover a mutant's line; return `caught`, `missed`, `not reached` or `unviable`.

    Unviable mutants do not compile, for example `f(/values)`.
    """
    if not tests:
        return "not reached"
    file = clone / mutant.file
    source = file.read_text(encoding="utf-8")
    code = changed(source, mutant)
    try:
        compile(code, mutant.file, "exec")
    except SyntaxError:
        return "unviable"
    try:
        file.write_text(code, encoding="utf-8")
        done = _pytest(clone, ["-x", "-p", "no:xdist", *tests[:MOST_TESTS]], TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return "caught"
    finally:
        file.write_text(source, encoding="utf-8")
    return "missed" if done.returncode == 0 else "caught"


def _pytest(clone: Path, argv: Sequence[str], timeout_s: float | None) -> subprocess.CompletedProcess[str]:
    # With a fixed sample of cases, the tests have the same names in each run.
    environ = {
        **os.environ,
        drawn.SEED: "11",
        "PYTHONPATH": os.pathsep.join([str(clone), os.environ.get("PYTHONPATH", "")]),
    }
    command = ["tests/isolated", sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *argv]
    return subprocess.run(
        command, cwd=clone, env=environ, capture_output=True, text=True, timeout=timeout_s, check=False
    )


def cloned(commit: str, out: Path) -> Path:
    """Clone a commit into `out`, with the native programs that are built here; return the clone's folder."""
    clone = out.absolute() / "tree"
    shutil.rmtree(clone, ignore_errors=True)
    subprocess.run(["git", "clone", "--quiet", "--no-checkout", str(TREE), str(clone)], check=True)
    subprocess.run(["git", "checkout", "--quiet", commit], cwd=clone, check=True)
    for name in ("target", ".venv"):
        (clone / name).symlink_to(TREE / name)
    return clone


def run(commit: str, count: int, seed: int, out: Path) -> None:
    """Test the sample of a commit's mutants; print the survivors and the counts. Raises MutantsError."""
    clone = cloned(commit, out)
    by_line = covered(clone)
    found = {
        mutant.name: mutant
        for part in PARTS
        for file in sorted((clone / part).rglob("*.py"))
        for mutant in mutants(file, str(file.relative_to(clone)), seed)
    }
    listed = [{"file": mutant.file, "name": name} for name, mutant in found.items()]
    verdicts: dict[str, str] = {}
    with (out / f"{commit[:12]}.jsonl").open("w") as log:
        for name in sample(listed, count, seed):
            mutant = found[name]
            verdicts[name] = verdict(clone, mutant, by_line.get((mutant.file, mutant.line), ()))
            print(json.dumps({"mutant": name, "verdict": verdicts[name]}), file=log, flush=True)
    counts = Counter(verdicts.values())
    for name in sorted(name for name, result in verdicts.items() if result == "missed"):
        print(f"  {name}")
    judged = counts["caught"] + counts["missed"]
    share = 100 * counts["missed"] / max(judged, 1)
    print(f"{len(verdicts)} of {len(found)} mutants of {commit[:12]}, seed {seed}: {dict(counts)}")
    print(f"{counts['missed']} of {judged} alive ({share:.1f} %)")


def main() -> int:
    """Check the arguments, run, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.python_mutants", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--commit", default="HEAD")
    parser.add_argument("--out", type=Path, default=Path("var/python-mutants"))
    options = parser.parse_args()
    missing = [name for name in ("cosmic_ray", "coverage", "pytest_cov") if find_spec(name) is None]
    if missing:
        print(f"bench: {', '.join(missing)} missing: pip install {PACKAGES}", file=sys.stderr)
        return 2
    argv = ["git", "rev-parse", "--verify", "--quiet", f"{options.commit}^{{commit}}"]
    commit = subprocess.run(argv, cwd=TREE, capture_output=True, text=True, check=False).stdout.strip()
    if not commit:
        print(f"bench: --commit: this repository has no commit {options.commit}", file=sys.stderr)
        return 2
    try:
        run(commit, options.count, options.seed, options.out)
    except MutantsError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
