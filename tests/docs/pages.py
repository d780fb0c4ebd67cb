"""Commands in the README, the tutorials and the how-to guides, and their documented output."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs" / "tutorials").glob("*.md")),
    *sorted((ROOT / "docs" / "how-to").glob("*.md")),
]
_FENCED = re.compile(r"^```(?:sh|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?:^ {4}.*\n)+", re.MULTILINE)


@dataclass(frozen=True)
class PageCommand:
    """A command on a page: the words up to a pipe, and the lines of output below it."""

    page: str
    words: tuple[str, ...]
    output: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.page}: {' '.join(self.words)}"


def commands(path: Path) -> Iterator[PageCommand]:
    """Yield a page's commands in order: lines of `sh` blocks, and lines after `$` in indented blocks."""
    text = path.read_text(encoding="utf-8")
    name = path.relative_to(ROOT).as_posix()
    for block in sorted([*_FENCED.finditer(text), *_INDENTED.finditer(text)], key=re.Match.start):
        if block.re is _FENCED:
            for line in block[1].replace("\\\n", " ").splitlines():
                if words := _words(line):
                    yield PageCommand(name, words)
            continue
        lines = re.sub(r"^ {4}", "", block[0], flags=re.MULTILINE).replace("\\\n", " ").splitlines()
        starts = [number for number, line in enumerate(lines) if line.startswith("$ ")]
        for first, last in pairwise([*starts, len(lines)]):
            yield PageCommand(name, _words(lines[first][2:]), tuple(lines[first + 1 : last]))


def python_blocks(path: Path) -> str:
    """Return the Python blocks of a page as one program: a block may use names of the blocks before it."""
    return "".join(_PYTHON.findall(path.read_text(encoding="utf-8")))


def unread(path: Path) -> list[str]:
    """Return the code blocks of a page that neither `commands` nor `python_blocks` reads."""
    text = _PYTHON.sub("", _FENCED.sub("", path.read_text(encoding="utf-8")))
    fenced = re.findall(r"^ *```.*?^ *```", text, re.MULTILINE | re.DOTALL)
    return fenced + [block for block in _INDENTED.findall(text) if not block.lstrip().startswith("$ ")]


def _words(line: str) -> tuple[str, ...]:
    words = shlex.split(line, comments=True)
    if "|" in words:
        words = words[: words.index("|")]
    return tuple(word.removeprefix(".venv/bin/") if not number else word for number, word in enumerate(words))
