"""`make test-long`: the checks that take too long to run for each change. Prints a table at the end.

    python -m tests.long [--group NAME]...

Run it before a release and after a large change. The groups run one after the other. A failed group does not
stop the others. Each group writes its output to var/test-long/GROUP.log. Exit status 0: all groups passed.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests import drawn

TREE = Path(__file__).parent.parent
LOGS = TREE / "var" / "test-long"
PYTEST = ("tests/isolated", sys.executable, "-m", "pytest", "-q")
# The last line of pytest and of cargo.
_CLOSING = re.compile(
    r"^(?:=+ )?(\d+ (?:passed|failed).*?)(?: =+)?$|^test result: (.*?);? finished", re.MULTILINE
)


@dataclass(frozen=True)
class Group:
    """A command that runs checks, and their description. `env` adds to its environment."""

    meaning: str
    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)


GROUPS = {
    "drawn": Group(
        "all cases of kills at random times; `make test` runs a sample of them",
        (*PYTEST, "-n", "3", "-m", "drawn and not testbed"),
        {drawn.ALL: "1"},
    ),
    "timing": Group(
        "three rounds of the tests that depend on a clock, with two busy loops in parallel",
        ("deploy/repeat_timing.sh", "3", "2", "1"),
    ),
    "soak": Group(
        "a campaign of a million names, with the limits of CPU time, memory and disk of docs/measured.md",
        ("make", "bench", "ARGS=campaign --names 1000000 --rate 20000 --resolve-rate 60000"),
    ),
    "pages": Group(
        "screenshots of the dashboard on stores with a day and a year, in var/test-long/pages",
        ("tests/isolated", sys.executable, "-m", "tests.dashboard.screenshots", str(LOGS / "pages")),
    ),
    "recipes": Group(
        "a stage and a query, added to a copy of the tree as docs/extending.md says",
        (*PYTEST, "-m", "recipes", "tests/recipes"),
    ),
    "testbed": Group("all tests in simulated time", ("make", "testbed-test"), {drawn.ALL: "1"}),
    "superset": Group("Superset with its generated assets", ("make", "superset-test")),
    "cloud": Group("OpenTofu and cloud-init on deploy/cloud", ("make", "cloud-test")),
    "dist": Group("the output of `make dist`, installed without network or compilers", ("make", "dist-test")),
    "deploy": Group("a site installed with the playbook in systemd-nspawn (root)", ("make", "deploy-test")),
}


@dataclass(frozen=True)
class GroupResult:
    """A group's result: exit status, elapsed seconds, and the tests' last line, if any."""

    name: str
    status: int
    elapsed_s: float
    closing: str


def run(name: str, group: Group, logs: Path = LOGS) -> GroupResult:
    """Run a group; write its output to `logs`."""
    logs.mkdir(parents=True, exist_ok=True)
    log, begun = logs / f"{name}.log", time.monotonic()
    with log.open("wb") as output:
        done = subprocess.run(
            group.argv, cwd=TREE, env={**os.environ, **group.env}, stdout=output, stderr=subprocess.STDOUT
        )
    elapsed_s = time.monotonic() - begun
    return GroupResult(
        name, done.returncode, elapsed_s, closing(log.read_text(encoding="utf-8", errors="replace"))
    )


def closing(text: str) -> str:
    """Return the last closing line from a test runner in `text`, or its last line."""
    found = [first or second for first, second in _CLOSING.findall(text)]
    lines = text.split("\n")
    return found[-1] if found else next((line for line in reversed(lines) if line.strip()), "no output")


def table(results: Sequence[GroupResult]) -> list[str]:
    """Return the lines of the summary."""
    lines = [f"{'group':10} {'result':8} {'minutes':>7}  closing line"]
    for result in results:
        verdict = "passed" if result.status == 0 else f"exit {result.status}"
        lines.append(f"{result.name:10} {verdict:8} {result.elapsed_s / 60:7.1f}  {result.closing[:100]}")
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chosen groups, or all, and print the table; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.long",
        description="Runs the checks that take too long for each change.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="groups:\n" + "\n".join(f"  {name:10} {group.meaning}" for name, group in GROUPS.items()),
    )
    parser.add_argument(
        "--group", action="append", choices=tuple(GROUPS), metavar="NAME", help="run this group (repeatable)"
    )
    chosen = parser.parse_args(arguments).group or list(GROUPS)
    results = []
    for name in chosen:
        print(f"{name}: {GROUPS[name].meaning}", file=sys.stderr, flush=True)
        results.append(run(name, GROUPS[name]))
        print(table(results[-1:])[1], file=sys.stderr, flush=True)
    print("\n".join(table(results)))
    return 0 if all(result.status == 0 for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
