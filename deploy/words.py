"""Checks the words of names and prose against the vocabulary (CONTRIBUTING.md, "Words").

    python deploy/words.py [PHRASE]

Rejects names of files, modules, types and functions that mean something else in the field. Compares how often
phrases occur in the prose of this tree with their rates in other projects of the field, which
deploy/word_rates.toml lists. With PHRASE, prints the files that contain it, most uses first. Exit status 1
if a name is rejected or a limit of word_rates.toml is exceeded.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from firstflight.system import terminal

TREE = Path(__file__).resolve().parent.parent
RATES = TREE / "deploy" / "word_rates.toml"
PER_WORDS = 100_000
"""Rates are uses in this number of words."""
RARE = 1.0
"""Lower rates count as this one: the field's projects are too small to measure them."""

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

_RUST = re.compile(r"\b(?:fn|mod|struct|enum|trait|type|union)\s+(\w+)")
_GO = re.compile(r"^(?:func(?:\s*\([^)]*\))?|type)\s+(\w+)", re.MULTILINE)
_PARTS = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
_WORD = re.compile(r"[a-z][a-z'-]*")
_CODE_IN_PROSE = re.compile(r"`[^`\n]*`")

# The parts of Markdown that are not prose: fenced and indented code, targets of links.
_MARKDOWN_CODE = re.compile(r"```.*?```|^(?: {4}|\t).*$|(?<=\])\([^)]*\)", re.DOTALL | re.MULTILINE)
_HTML_CODE = re.compile(r"<(script|style)\b.*?</\1>|\{%.*?%\}|\{\{.*?\}\}|<[^>]*>", re.DOTALL)
# Strings come first, because they may contain a comment's mark; the group is the comment's text.
_STRING = r"\"(?:\\.|[^\"\\])*\""
_SLASHES = re.compile(rf"{_STRING}|'(?:\\.|[^\\'\n])'|//[/!]?(.*)|/\*([\s\S]*?)\*/")
_PYTHON = re.compile(rf"\"\"\"[\s\S]*?\"\"\"|'''[\s\S]*?'''|{_STRING}|'(?:\\.|[^'\\\n])*'|#(?: |!|:)?(.*)")
_HASHES = re.compile(r"(?:^|\s)(?:#|--)\s(.*)", re.MULTILINE)
_COMMENTS = {
    **dict.fromkeys((".rs", ".go", ".c", ".js", ".java"), _SLASHES),
    **dict.fromkeys((".sh", ".toml", ".yaml", ".yml", ".sql"), _HASHES),
    ".py": _PYTHON,
}

# Files of other projects, names that code hosts look for, and released migrations, which never change.
_OTHERS = ("CODE_OF_CONDUCT.md", "tests/fixtures/", "schemas/migrations/", "reports/dashboard/static/uplot")
_NAMES_EXEMPT = (*_OTHERS, "deploy/words.py", "tests/deploy/test_words.py")
_PROSE_EXEMPT = (*_NAMES_EXEMPT, "deploy/word_rates.toml", "CHANGELOG.md")


class Fault(NamedTuple):
    """A name that is not used here; `line` is 0 for a file's name."""

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


class Field(NamedTuple):
    """Rates of phrases in the field's projects, and limits for this tree (deploy/word_rates.toml)."""

    rates: Mapping[str, float]
    """Phrase -> uses per 100,000 words."""
    limits: Mapping[float, int]
    """Multiple of the field's rate -> how many phrases may exceed it."""
    source: tuple[str, ...]


class Excess(NamedTuple):
    """A phrase, its rate in this tree and in the field (uses per 100,000 words)."""

    phrase: str
    ours: float
    field: float

    @property
    def times(self) -> float:
        """Return the rate as a multiple of the field's."""
        return self.ours / max(self.field, RARE)

    def __str__(self) -> str:
        return f"{self.phrase!r}: {self.ours:.0f} in {PER_WORDS} words, in the field {self.field:g}"


def main(arguments: list[str]) -> int:
    """Check every file that git tracks; return the exit status."""
    files = subprocess.run(["git", "ls-files", "-z"], cwd=TREE, capture_output=True, text=True, check=True)
    texts = {path: _read(path) for path in files.stdout.split("\0") if path and (TREE / path).is_file()}
    field = read_field(RATES)
    if arguments:
        uses = Counter(
            {path: count(words(path, text), arguments)[arguments[0]] for path, text in texts.items()}
        )
        for path, times in uses.most_common():
            if times:
                terminal.echo(f"{times:5}  {path}")
        return 0
    rejected = [fault for path, text in texts.items() for fault in in_names(path, text)]
    for fault in rejected:
        terminal.echo(str(fault))
    prose = [word for path, text in texts.items() for word in [*words(path, text), "."]]
    drifted = exceeded(compare(prose, field), field)
    for line in drifted:
        terminal.echo(line)
    return int(bool(rejected or drifted))


def read_field(path: Path) -> Field:
    """Read the rates and limits in a TOML file."""
    given = tomllib.loads(path.read_text(encoding="utf-8"))
    limits = {float(limit["times"]): int(limit["phrases"]) for limit in given["limit"]}
    return Field(given["rates"], limits, tuple(given["source"]))


def compare(prose: list[str], field: Field) -> list[Excess]:
    """Return every phrase of the field with its rate in `prose`, the highest multiple first."""
    total = sum(word != "." for word in prose) or 1
    uses = count(prose, field.rates)
    compared = [
        Excess(phrase, uses[phrase] / total * PER_WORDS, rate) for phrase, rate in field.rates.items()
    ]
    return sorted(compared, key=lambda excess: -excess.times)


def exceeded(compared: list[Excess], field: Field) -> list[str]:
    """Return one line per exceeded limit, each followed by the phrases that count for it."""
    lines = []
    for times, phrases in field.limits.items():
        above = [excess for excess in compared if excess.times > times]
        if len(above) > phrases:
            lines += [f"  {excess}" for excess in above]
            lines.append(
                f"{len(above)} phrases are more than {times:g} times as frequent as in the field "
                f"({', '.join(field.source)}), {phrases} are allowed: rewrite sentences that contain them "
                "(deploy/words.py PHRASE lists the files)"
            )
    return lines


def count(prose: list[str], phrases: Iterable[str]) -> Counter[str]:
    """Count the uses of phrases with one to three words."""
    wanted = set(phrases)
    uses: Counter[str] = Counter()
    for length in {len(phrase.split()) for phrase in wanted}:
        runs = Counter(zip(*(prose[start:] for start in range(length)), strict=False))
        uses.update(
            {phrase: runs[tuple(phrase.split())] for phrase in wanted if len(phrase.split()) == length}
        )
    return uses


def words(path: str, text: str) -> list[str]:
    """Return the words of the prose in a file in lower case: documents, comments and docstrings.

    Code in backticks is one word, `x`.
    """
    if path.startswith(_PROSE_EXEMPT):
        return []
    return _WORD.findall(_CODE_IN_PROSE.sub(" x ", _prose(path, text)).lower())


def _prose(path: str, text: str) -> str:
    ending = Path(path).suffix
    if ending == ".md":
        return _MARKDOWN_CODE.sub(" ", text)
    if ending == ".html":
        return _HTML_CODE.sub(" ", text)
    if ending not in _COMMENTS:
        return ""
    comments = [part for match in _COMMENTS[ending].finditer(text) for part in match.groups() if part]
    if ending == ".py":
        comments += _docstrings(ast.parse(text))
    return "\n".join(comments)


def _docstrings(tree: ast.Module) -> Iterator[str]:
    """Yield the texts of statements that are only a string: docstrings, also of variables."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield node.value.value


def in_names(path: str, text: str) -> Iterator[Fault]:
    """Yield names of the file, its types and functions that are in NAMES.

    The name of a file or type must not contain such a word; a function's name must not be such a word.
    """
    if path.startswith(_NAMES_EXEMPT):
        return
    stem = Path(path).name.partition(".")[0]
    for word in _name_parts(stem):
        yield Fault(path, 0, f"a file is called {stem}: write {NAMES[word]} for {word}")
    for line, kind, name in _definitions(path, text):
        found = _name_parts(name) if kind == "type" else [w for w in [name.strip("_").lower()] if w in NAMES]
        for word in found:
            yield Fault(path, line, f"a {kind} is called {name}: write {NAMES[word]} for {word}")


def _name_parts(name: str) -> list[str]:
    parts = "_".join(part.lower() for part in _PARTS.findall(name))
    return [word for word in NAMES if f"_{word}_" in f"_{parts}_"]


def _definitions(path: str, text: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, kind and name of each definition in a source file."""
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
    sys.exit(main(sys.argv[1:]))
