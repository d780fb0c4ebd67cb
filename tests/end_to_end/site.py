"""A separate lab for a test session, and the command line that uses it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests import stores

ROOT = Path(__file__).parent.parent.parent
BEHAVIOUR = ROOT / "lab" / "internet.toml"
PACKAGES = (
    *("cli", "crawler", "dissector", "downloader", "firstflight", "lab"),
    *("orchestration", "reports", "scanner", "schemas", "store"),
)
COPIED = "copied"  # rows have this instead of a commit
FIRSTFLIGHT = str(Path(sys.executable).with_name("firstflight"))
VANTAGES = ("hamburg", "los_angeles", "sao_paulo", "hong_kong")


@dataclass(frozen=True)
class LabFolders:
    """A lab's folders, the runs and the store; every command uses them."""

    folder: Path
    tree: Path = ROOT  # the program's source tree

    @property
    def lab(self) -> Path:
        """Return the state folder of the lab."""
        return self.folder / "lab"

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment that makes `firstflight` use this site."""
        bin_folder = str(Path(sys.executable).parent)
        return {
            **os.environ,
            "PATH": f"{bin_folder}:{os.environ['PATH']}",
            "FIRSTFLIGHT_LAB": str(self.lab),
            "FIRSTFLIGHT_RUNS": str(self.folder / "runs"),
            "FIRSTFLIGHT_STORE": f"chdb:{self.folder / 'store'}",
            "FIRSTFLIGHT_BIN": str(ROOT / "target" / "release"),
            "PYTHONPATH": str(self.tree),
        }

    def config(self, vantages: Sequence[str] = VANTAGES) -> Path:
        """Write the lab's campaign file for this site, with the given vantage points."""
        path = self.folder / "campaign.toml"
        text = (ROOT / "lab" / "campaign.toml").read_text(encoding="utf-8")
        head, *points = text.replace("../var/lab", str(self.lab)).split("[[vantage]]")
        points = [point for point in points if tomllib.loads(point)["name"] in vantages]
        path.write_text(head + "".join(f"[[vantage]]{point}" for point in points), encoding="utf-8")
        return path

    def firstflight(self, *args: str, timeout: float = 900, expect: int = 0) -> str:
        """Run `firstflight`; return the standard output. On failure, the assertion shows standard error."""
        done = subprocess.run(
            [FIRSTFLIGHT, *args],
            env=self.environment,
            cwd=self.tree,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert done.returncode == expect, f"firstflight {' '.join(args)}: {done.returncode}\n{done.stderr}"
        return done.stdout

    def lines(self, *args: str) -> list[dict[str, Any]]:
        """Run `firstflight`; return the standard output as JSON lines."""
        return [json.loads(line) for line in self.firstflight(*args).splitlines()]

    def sql(self, query: str) -> list[dict[str, Any]]:
        """Query the store."""
        return stores.rows(f"chdb:{self.folder / 'store'}", query)

    def probe(self, vantage: str, targets: list[tuple[str, str]]) -> list[dict[str, Any]]:
        """Probe (ip, domain) targets from a vantage point, outside any campaign."""
        file = self.folder / f"again-{vantage}.csv"
        file.write_text("ip,domain,port\n" + "".join(f"{ip},{domain},\n" for ip, domain in targets))
        nets = ["--allow-net", "198.18.0.0/15", "--allow-net", "2001:db8::/32"]
        rates = ["--rate", "50", "--per-prefix-rate", "0"]
        command = ["firstflight", "probe", "--targets", str(file), "--format", "jsonl", *nets, *rates]
        return self.lines("lab", "exec", vantage, *command)


@contextmanager
def without_behaviour(site: LabFolders) -> Iterator[LabFolders]:
    """Yield the site for programs without the behaviour file. A program that needs the file fails.

    The programs run from a separate tree, so that the tree of other tests does not change.
    """
    tree = site.folder / "tree"
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tree / package, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    (tree / "lab" / BEHAVIOUR.name).unlink()
    (tree / "firstflight" / "COMMIT").write_text(COPIED, encoding="utf-8")
    in_force = site.lab / BEHAVIOUR.name
    content = in_force.read_bytes()
    in_force.unlink()
    try:
        yield replace(site, tree=tree)
    finally:
        in_force.write_bytes(content)


@contextmanager
def raised(folder: Path) -> Iterator[LabFolders]:
    """Start a lab with captures at the edges, yield its site, and remove the lab at the end."""
    made = LabFolders(folder)
    made.firstflight("lab", "up", "--capture-edges")
    try:
        yield made
    finally:
        made.firstflight("lab", "down")
