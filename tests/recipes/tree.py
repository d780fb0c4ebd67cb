"""A copy of this tree, to which recipes add files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.recipes.additions import Addition

ROOT = Path(__file__).parent.parent.parent
# The environment and the native programs are shared; mypy's cache makes it read only changed modules.
LINKED = (".venv", "target")
MYPY_CACHE = ".mypy_cache"


def copy(to: Path) -> None:
    """Copy the files of the working tree to `to`, and make it a repository."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)
    for name in LINKED:
        (to / name).symlink_to(ROOT / name)
    if (ROOT / MYPY_CACHE).is_dir():
        shutil.copytree(ROOT / MYPY_CACHE, to / MYPY_CACHE)
    subprocess.run(["git", "init", "-q"], cwd=to, check=True)


def add(tree: Path, addition: Addition) -> None:
    """Add what a recipe adds, and generate its pages."""
    for name, text in addition.files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    for name, changes in addition.inserted.items():
        for line, text in changes:
            before, found, after = (tree / name).read_text().partition(line)
            assert found, f"{name} has no line {line!r}"
            (tree / name).write_text(before + text + found + after)
    for name, module in addition.generated.items():
        done = run(tree, [sys.executable, "-m", module])
        assert done.returncode == 0, done.stderr
        (tree / name).write_text(done.stdout)
    subprocess.run(["git", "add", "-A"], cwd=tree, check=True)


def run(
    tree: Path, argv: Sequence[str], more: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command in the copy, whose modules it imports; return its output and exit status."""
    environment = {**os.environ, **(more or {}), "PYTHONPATH": str(tree)}
    return subprocess.run(argv, cwd=tree, env=environment, capture_output=True, text=True)
