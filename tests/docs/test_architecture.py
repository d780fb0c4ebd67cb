"""The folders in docs/architecture.md and the recipes in docs/extending.md match the tree."""

from __future__ import annotations

import ast
import re
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

import pytest

from orchestration import stages
from tests.recipes.additions import FIGURE, QUERY, STAGE, Addition

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
EXTENDING = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
_HEADING = re.compile(r"^## (An? [^(\n]+) \((\d+) places?\)$", re.MULTILINE)
_STEP = re.compile(r"^\d+\. ((?:.|\n(?! *\n|\d+\. ))*)", re.MULTILINE)
_CODE = re.compile(r"`([^`]+)`")
# A path: a file of the root, or below a folder of it.
_PATH = re.compile(r"[\w.-]+(?:/[\w.-]*)+|Cargo\.(?:toml|lock)")
_PLACEHOLDER = re.compile(r"NAME|KIND")
LONGEST = 120
"""Lines of the page: two screens."""
WIDEST = 200
"""Characters in a row in the table of folders: two lines on a screen."""


class Recipe(NamedTuple):
    """A recipe: the number of places that its heading states, its numbered steps, and its whole text."""

    stated: int
    steps: list[str]
    text: str

    @property
    def places(self) -> list[str]:
        """The pattern of paths of each step, which is the first code of the step."""
        return [pattern(_CODE.findall(step)[0]) for step in self.steps]


def section(title: str) -> str:
    return re.split(r"^## ", PAGE.partition(f"\n## {title}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def recipes() -> dict[str, Recipe]:
    """Return the recipes of docs/extending.md by their headings."""
    found = list(_HEADING.finditer(EXTENDING))
    stops = [*(heading.start() for heading in found[1:]), len(EXTENDING)]
    bodies = [EXTENDING[heading.end() : stop] for heading, stop in zip(found, stops, strict=True)]
    return {
        heading[1]: Recipe(int(heading[2]), _STEP.findall(body), body)
        for heading, body in zip(found, bodies, strict=True)
    }


def pattern(place: str) -> str:
    """Return the pattern for a place: placeholders match any name, and a folder matches its files."""
    return _PLACEHOLDER.sub("*", place) + ("*" if place.endswith("/") else "")


RECIPES = recipes()
RECIPES_FOLLOWED = [("A stage", STAGE), ("A figure of the report page", FIGURE), ("A query", QUERY)]


def test_the_page_fits_on_two_screens() -> None:
    assert len(PAGE.splitlines()) <= LONGEST


def test_each_heading_is_a_recipe() -> None:
    headings = re.findall(r"^#{2,} (.+) \(", EXTENDING, re.MULTILINE)
    assert headings == list(RECIPES) and {"A stage", "An engine", "A query"} <= set(headings)
    assert EXTENDING.count("\n## ") == len(headings)


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_has_the_stated_number_of_places_and_each_exists(name: str) -> None:
    recipe = RECIPES[name]
    assert len(recipe.steps) == recipe.stated
    assert len(set(recipe.places)) == recipe.stated
    named = [code for code in _CODE.findall(recipe.text) if _PATH.fullmatch(code)]
    assert {_CODE.findall(step)[0] for step in recipe.steps} <= set(named), "a step begins with a path"
    missing = [path for path in named if not any(ROOT.glob(pattern(path).removesuffix("/")))]
    assert missing == []


@pytest.mark.parametrize(("name", "addition"), RECIPES_FOLLOWED)
def test_an_addition_changes_exactly_the_places_of_its_recipe(name: str, addition: Addition) -> None:
    places = RECIPES[name].places
    matched = {path: [place for place in places if fnmatch(path, place)] for path in addition.paths}
    assert {path: found for path, found in matched.items() if len(found) != 1} == {}
    assert {found[0] for found in matched.values()} == set(places)


def test_the_page_has_a_row_for_each_stage() -> None:
    rows = re.findall(r"^\| `(\w+)` \|.*\| `([\w.]+)\(", section("Stages"), re.MULTILINE)
    assert dict(rows) == {stage.name: f"{stage.entry}.stage" for stage in stages.STAGES}


def test_the_table_of_folders_is_short_and_names_every_folder() -> None:
    rows = [line for line in section("Folders").splitlines() if line.startswith("| `")]
    named = {path for row in rows for path in re.findall(r"`(\w+)/`", row.split("|")[1])}
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert packages | {"dags", "deploy", "wire"} == named
    assert [row[:60] for row in rows if len(row) > WIDEST] == []


@pytest.mark.parametrize(
    "package", ["cli", "scanner", "downloader", "reports", "orchestration", "store", "testbed", "lab"]
)
def test_a_package_describes_its_folders(package: str) -> None:
    described = ast.get_docstring(ast.parse((ROOT / package / "__init__.py").read_text(encoding="utf-8")))
    of_stages = {stage.entry.split(".")[1] for stage in stages.STAGES}
    folders = {path.parent.name for path in (ROOT / package).glob("*/__init__.py")} - of_stages
    assert described and [name for name in sorted(folders) if not re.search(rf"\b{name}\b", described)] == []
