"""A separate lab for tests, and programs on its hosts."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.waiting import PATIENCE_S

ROOT = Path(__file__).parents[2]
FIRSTFLIGHT = str(Path(sys.executable).with_name("firstflight"))


@dataclass(frozen=True)
class Lab:
    """The command line with a separate state folder."""

    state: Path

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment that makes `firstflight` use this lab."""
        return {**os.environ, "FIRSTFLIGHT_LAB": str(self.state)}

    def call(self, *args: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
        """Run `firstflight lab ...`."""
        return subprocess.run(
            [FIRSTFLIGHT, "lab", *args],
            env=self.environment,
            cwd=cwd,
            capture_output=True,
            text=True,
            # Longer than all limits of the lab, so that the lab's error message names the cause.
            timeout=PATIENCE_S,
            check=False,
        )

    def run(self, *args: str) -> str:
        """Run `firstflight lab ...`; return the standard output. The command must succeed."""
        done = self.call(*args)
        assert done.returncode == 0, f"lab {' '.join(args)}: {done.returncode}\n{done.stderr}"
        return done.stdout

    def python(self, host: str, code: str, *args: str) -> str:
        """Run Python code on a host."""
        return self.run("exec", host, sys.executable, "-c", code, *args)

    def start(self, host: str, *argv: str) -> subprocess.Popen[str]:
        """Start a program on a host."""
        return subprocess.Popen(
            [FIRSTFLIGHT, "lab", "exec", host, *argv],
            env=self.environment,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
