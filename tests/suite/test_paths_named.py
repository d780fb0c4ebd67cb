"""All files named in comments and documents exist."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = (
    "bench|cli|crawler|dags|deploy|dissector|docs|downloader|examples|firstflight|lab|orchestration|reports|"
    "scanner|schemas|store|testbed"
)
NAMED = re.compile(rf"(?<![\w./-])(?:{FOLDERS}|tests|wire)/[\w./-]+\.(?:py|rs|md|toml|yaml|sql|csv|sh)\b")
SAYS = {".py", ".rs", ".go", ".md", ".toml", ".yaml", ".sql", ".sh"}
# Patterns for many files.
PATTERN = re.compile(r"/(?:NAME|KIND)[./]")


def test_files_that_are_named_exist() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    missing = {}
    for name in filter(None, listed.stdout.split("\0")):
        path = ROOT / name
        if path.suffix not in SAYS or not path.is_file() or name.startswith("tests/"):
            continue
        for named in NAMED.findall(path.read_text(encoding="utf-8")):
            # Relative to the top, or to a folder above the naming file, such as a crate.
            folders = Path(name).parents
            if not PATTERN.search(named) and not any((ROOT / folder / named).exists() for folder in folders):
                missing[named] = name
    assert missing == {}
