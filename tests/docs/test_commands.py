"""Commands and options in the README, the tutorials and the how-to guides exist."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import click
import pytest

from cli import main
from firstflight.system import binaries
from tests.docs.pages import PAGES, ROOT, PageCommand, commands

SHOWN = [shown for page in PAGES for shown in commands(page)]
# System programs that pages use.
SYSTEM = {"cp", "export", "make"}


@cache
def native_options(program: str) -> frozenset[str]:
    """Return the options in a native program's help."""
    done = subprocess.run([binaries.find(program), "--help"], capture_output=True, text=True, check=True)
    return frozenset(re.findall(r"(?:^|[ ,])(--?[a-z][a-z-]*)\b", done.stdout))


def fault(words: Sequence[str]) -> str | None:
    """Return why the words after `firstflight` are not a command, or `None`."""
    command: click.Command = main.root
    context = click.Context(command)
    rest = list(words)
    path: list[str] = []
    while isinstance(command, click.Group):
        if not rest or rest[0].startswith("-"):
            break
        below = command.get_command(context, rest[0])
        if below is None:
            return f"{' '.join([*path, rest[0]])} is no command"
        path.append(rest.pop(0))
        command = below
    if path == ["lab", "exec"]:
        inner = rest[1:]
        return fault(inner[1:]) if inner[0] == "firstflight" else None
    known = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
    if program := main.native_program(path[0]):
        known |= native_options(program)
    used = {word.split("=")[0] for word in rest if re.match(r"--?[a-z]", word)}
    if unknown := used - known - {"--help", "--version"}:
        return f"{' '.join(path)} has no option {', '.join(sorted(unknown))}"
    if path == ["query"] and rest and not rest[0].startswith("-"):
        return None if (ROOT / "schemas/queries" / f"{rest[0]}.sql").is_file() else f"no query {rest[0]}"
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_of_a_page_exist(page: Path) -> None:
    for shown in commands(page):
        program, *words = shown.words
        assert program == "firstflight" or program in SYSTEM, shown
        if program == "firstflight":
            assert fault(words) is None, shown
        if program == "make":
            assert re.search(rf"^{words[0]}:", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE), shown


def test_there_are_commands() -> None:
    assert len(SHOWN) > 40 and any(shown.output for shown in SHOWN)
    assert {"README.md", "docs/tutorials/first-table.md"} <= {shown.page for shown in SHOWN}


@pytest.mark.parametrize(
    "words",
    [
        "spool status",
        "probe --nonsense 1",
        "query no_such_query",
        "campaign run --nonsense",
        "lab exec a firstflight no",
    ],
)
def test_a_wrong_command_is_found(words: str) -> None:
    assert fault(words.split()) is not None


def test_query_names_of_the_guide_exist() -> None:
    """The tables of pages name queries and tables too."""
    text = (ROOT / "docs/reference/which-table.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| [^|]+ \| ([^|]+) \| ([^|]*) \|$", text, re.MULTILINE)[1:]
    assert len(rows) > 15
    kinds = {
        path.stem for folder in ("records", "views") for path in (ROOT / "schemas" / folder).glob("*.yaml")
    }
    queries = {path.stem for path in (ROOT / "schemas/queries").glob("*.sql")}
    for tables, named in rows[1:]:
        assert set(re.findall(r"`(\w+)`", tables)) <= kinds, tables
        assert set(re.findall(r"`(\w+)`", named)) <= queries, named


def test_commands_are_parsed() -> None:
    assert PageCommand("README.md", ("make", "demo")) in [
        PageCommand(command.page, command.words) for command in SHOWN
    ]
