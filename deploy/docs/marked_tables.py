"""Tables in pages that a program writes: each is between `<!-- KIND: NAME -->` and `<!-- end -->`."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path


def names(text: str, kind: str) -> list[str]:
    """Return the names of a page's tables of this kind, in the page's order."""
    return [match[1] for match in _marked(kind).finditer(text)]


def pages(folder: Path, kind: str) -> list[Path]:
    """Return the pages below a folder that have tables of this kind."""
    return [path for path in sorted(folder.rglob("*.md")) if names(path.read_text(encoding="utf-8"), kind)]


def replaced(text: str, kind: str, table: Callable[[str], str]) -> str:
    """Return a page's text with its tables replaced; `table` returns the lines of a table by name."""
    return _marked(kind).sub(
        lambda match: f"<!-- {kind}: {match[1]} -->\n{table(match[1])}\n<!-- end -->", text
    )


def write(paths: Iterable[Path], written: Callable[[Path, str], str]) -> None:
    """Write the pages whose text changes by `written`, and print their paths."""
    for path in paths:
        text = path.read_text(encoding="utf-8")
        if (new := written(path, text)) != text:
            path.write_text(new, encoding="utf-8")
            sys.stdout.write(f"{path}\n")


def _marked(kind: str) -> re.Pattern[str]:
    return re.compile(rf"^<!-- {kind}: (\S+) -->\n.*?^<!-- end -->$", re.MULTILINE | re.DOTALL)
