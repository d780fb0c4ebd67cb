"""The table in docs/design/0013 and the marks in tests/conftest.py list the same tests."""

from __future__ import annotations

import re
from pathlib import Path

from tests.conftest import TIMING

ROOT = Path(__file__).parents[2]
(DESIGN,) = (ROOT / "docs/design").glob("0013-*.md")
# Only in the table: a whole site takes minutes, and guests have a separate clock.
NOT_REPEATED = {"tests/airflow/test_site.py", "tests/testbed/guests/test_lab.py"}


def files(name: str) -> set[str]:
    """Return a folder's test files, or the file; both relative to the top."""
    path = ROOT / name
    found = sorted(path.glob("**/test_*.py")) if path.is_dir() else [path]
    assert found and all(file.is_file() for file in found), name
    return {str(file.relative_to(ROOT)) for file in found}


def in_table(head: str) -> set[str]:
    """Return the files of the first column: `FOLDER/`, `FOLDER/test_NAME`, and names in the same folder.

    `head`: the line above the table's rows.
    """
    _, _, text = DESIGN.read_text(encoding="utf-8").partition(head)
    table, _, _ = text.partition("\n\n")
    found: set[str] = set()
    for row in re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE)[1:]:
        folder = "tests/"
        for name in row.partition(":")[0].split(", "):
            before, slash, last = name.rpartition("/")
            folder = f"tests/{before}/" if slash else folder
            found |= files(f"{folder}{last}.py" if last else folder)
    return found


def test_every_test_of_the_table_is_marked_and_every_marked_one_is_in_it() -> None:
    marked = {file for name in TIMING for file in files(name.partition("::")[0])}
    table = in_table("| test | protects | by |")
    assert len(table) > 30 and table >= NOT_REPEATED
    assert table - NOT_REPEATED == marked
    # A folder in the second table means the tests in it that are not in the first table.
    assert in_table("| test | waits for |") - marked
