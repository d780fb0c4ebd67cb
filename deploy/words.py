"""Checks the words of names and prose against the vocabulary (CONTRIBUTING.md, "Words").

    python deploy/words.py

Names that mean one thing here and another in the field are not used for files, modules, types and functions;
figures of speech are rare in prose. Ends with 1, one line per fault.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from firstflight.system import terminal

TREE = Path(__file__).resolve().parent.parent

# Word -> what to write.
NAMES = {
    "gate": "policy",
    "door": "egress, outbox",
    "hold": "rate_limit, pause",
    "ledger": "shared_limits, load log",
    "quiet": "count_only",
    "workplace": "scratch",
    "gone": "tombstones, missing",
    "freight": "payload",
    "seen": "packet_log",
    "conduct": "campaign",
    "life": "lifecycle",
    "right_of_way": "precedence",
    "manners": "backoff",
    "turns": "shared_limits",
    "ended": "cooldown, finished",
    "opening": "open_run, connect, decrypt",
}
PROSE = (
    *("told", "said", "laid to", "anew", "in peace", "without a word", "at hand", "by the clock"),
    *("had enough", "reckon", "gives way", "the books"),
)
PROSE_LINES = 25  # so many lines of the whole tree may have one

_PROSE = re.compile(rf"\b(?:{'|'.join(PROSE)})(?:s|ed|ing)?\b", re.IGNORECASE)
_RUST = re.compile(r"\b(?:fn|mod|struct|enum|trait|type|union)\s+(\w+)")
_GO = re.compile(r"^(?:func(?:\s*\([^)]*\))?|type)\s+(\w+)", re.MULTILINE)
_PARTS = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
# Prose is read in these; released migrations and past entries of the changelog stay as they are.
_TEXT = {".py", ".rs", ".go", ".java", ".md", ".toml", ".yaml", ".sql", ".sh", ".html"}
_LEFT_OUT = (
    "CODE_OF_CONDUCT.md",  # hosts of repositories look for this name
    "tests/fixtures/",
    "schemas/migrations/",
    "CHANGELOG.md",
    "deploy/words.py",
    "tests/deploy/test_words.py",
)


class Fault(NamedTuple):
    """One use of a word that is not used here; `line` is 0 for the name of a file."""

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


def main() -> int:
    """Read every file that git knows; 0 if all is well."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=TREE, capture_output=True, text=True, check=True)
    paths = [path for path in listed.stdout.split("\0") if path and (TREE / path).is_file()]
    names: list[Fault] = []
    prose: list[Fault] = []
    for path in paths:
        text = _read(path)
        names += in_names(path, text)
        prose += in_prose(path, text)
    for fault in names:
        terminal.echo(str(fault))
    if len(prose) >= PROSE_LINES:
        for fault in prose:
            terminal.echo(str(fault))
        terminal.echo(
            f"{len(prose)} lines of prose have a figure of speech; fewer than {PROSE_LINES} are allowed"
        )
    return int(bool(names) or len(prose) >= PROSE_LINES)


def in_names(path: str, text: str) -> Iterator[Fault]:
    """Names of the file, its types and functions that are on the list.

    A file and a type are not to have such a word in their name, a function is not to be called by it alone.
    """
    if path.startswith(_LEFT_OUT):
        return
    stem = Path(path).name.partition(".")[0]
    for word in _words(stem):
        yield Fault(path, 0, f"a file is called {stem}: write {NAMES[word]} for {word}")
    for line, kind, name in _defined(path, text):
        found = _words(name) if kind == "type" else [w for w in [name.strip("_").lower()] if w in NAMES]
        for word in found:
            yield Fault(path, line, f"a {kind} is called {name}: write {NAMES[word]} for {word}")


def in_prose(path: str, text: str) -> Iterator[Fault]:
    """Lines with a figure of speech."""
    if path.startswith(_LEFT_OUT) or not (Path(path).suffix in _TEXT or Path(path).name == "Makefile"):
        return
    for number, line in enumerate(text.splitlines(), start=1):
        found = _PROSE.search(line)
        if found:
            yield Fault(path, number, f"{found[0]!r}: {line.strip()[:90]}")


def _words(name: str) -> list[str]:
    parts = "_".join(part.lower() for part in _PARTS.findall(name))
    return [word for word in NAMES if f"_{word}_" in f"_{parts}_"]


def _defined(path: str, text: str) -> Iterator[tuple[int, str, str]]:
    """Line, kind and name of what a source file defines."""
    if path.endswith(".py"):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                yield node.lineno, "type", node.name
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node.lineno, "function", node.name
    elif path.endswith((".rs", ".go")):
        for match in (_RUST if path.endswith(".rs") else _GO).finditer(text):
            kind = "type" if match[1][0].isupper() and path.endswith(".rs") else "function"
            yield text.count("\n", 0, match.start()) + 1, kind, match[1]


def _read(path: str) -> str:
    try:
        return (TREE / path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


if __name__ == "__main__":
    sys.exit(main())
