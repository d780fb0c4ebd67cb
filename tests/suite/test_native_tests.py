"""Every file of native unit tests is compiled: a module declares it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TREE = Path(__file__).resolve().parents[2]
FILES = sorted(path for path in TREE.rglob("src/**/tests.rs") if "target" not in path.parts)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(TREE)))
def test_a_file_of_tests_is_declared(path: Path) -> None:
    folder = path.parent
    above = [folder.with_suffix(".rs"), *(folder / name for name in ("mod.rs", "lib.rs", "main.rs"))]
    declared = re.compile(r"#\[cfg\(test\)\]\n(pub(\(super\))? )?mod tests;")
    texts = [file.read_text("utf-8") for file in above if file.is_file()]
    assert any(map(declared.search, texts)), f"no module above {path.relative_to(TREE)} declares it"
