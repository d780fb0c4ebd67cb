"""The pages of docs/reference agree with the code that they describe."""

from __future__ import annotations

import inspect
import re
from functools import cache
from pathlib import Path

import pytest

from deploy.docs import commands, marked_tables, reference_tables
from firstflight.layout import RunLayout
from orchestration.stages import STAGES

_OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]+")
RUN_FILES = (reference_tables.FOLDER / "run-files.md").read_text(encoding="utf-8")


@cache
def options() -> frozenset[str]:
    """Return the options in the help of all commands."""
    return frozenset(_OPTION.findall(commands.markdown()))


@pytest.mark.parametrize("page", reference_tables.pages(), ids=lambda path: path.stem)
def test_the_tables_of_a_page_come_from_the_code(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text == reference_tables.with_tables(text), "run: python -m deploy.docs.reference_tables"


def test_each_table_is_on_one_page() -> None:
    shown = [
        name
        for page in reference_tables.pages()
        for name in marked_tables.names(page.read_text("utf-8"), reference_tables.KIND)
    ]
    assert sorted(shown) == sorted(reference_tables.TABLES)


def test_the_page_of_run_files_has_every_path_of_a_run_and_every_folder_of_a_stage() -> None:
    layout = RunLayout(Path("RUN"))
    properties = [
        name for name, _ in inspect.getmembers(RunLayout, lambda member: isinstance(member, property))
    ]
    names = {getattr(layout, name).name for name in properties}
    names |= {f"{folder}/" for stage in STAGES if stage.name != "load" for folder in stage.folders}
    assert [name for name in sorted(names) if name not in RUN_FILES] == []


@pytest.mark.parametrize("page", ["interfaces", "reference/native-programs", "definitions", "ethics"])
def test_the_options_of_a_page_exist(page: str) -> None:
    text = (reference_tables.FOLDER.parent / f"{page}.md").read_text(encoding="utf-8")
    assert sorted(set(_OPTION.findall(text)) - options()) == []
