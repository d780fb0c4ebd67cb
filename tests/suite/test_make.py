"""`make help` lists every target that the documents name."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
# A command: `make NAME` in code, or at the start of an indented line.
NAMED = re.compile(r"(?:`|^ {4,}(?:\w+=\S+ )?)make ([a-z][a-z-]*)", re.MULTILINE)


def listed() -> set[str]:
    """Return the targets that `make help` shows."""
    shown = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"^  make ([a-z-]+) +\S", shown, re.MULTILINE))


def test_help_lists_every_target_that_documents_name() -> None:
    named = {name for path in DOCUMENTS for name in NAMED.findall(path.read_text(encoding="utf-8"))}
    assert {"demo", "test", "airflow"} <= named <= listed()


def test_a_folder_of_source_is_only_given_on_the_command_line() -> None:
    """Other programs export a variable with this name for other purposes."""
    shown = ["make", "--dry-run", "testbed-setup"]
    for words, is_named in ([*shown, "SOURCE=picoquic=x"], True), (shown, False):
        done = subprocess.run(
            words, cwd=ROOT, env={**os.environ, "SOURCE": "y"}, capture_output=True, text=True, check=True
        )
        assert ("--source picoquic=x" in done.stdout) == ("--source" in done.stdout) == is_named


def test_help_lists_every_target() -> None:
    targets = re.findall(
        r"^([a-z][a-z-]*):(?!=)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert listed() == set(targets)
