"""Every evil server has a case, and every case that this folder's README names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TREE = HERE.parents[1]
README = TREE / "lab" / "stacks" / "rogue" / "README.md"
MODES = re.findall(r"^\| `([a-z_]+)` \|", README.read_text(), re.MULTILINE)
NAMED = [
    name
    for line in (HERE / "README.md").read_text().splitlines()
    if "`tests/" in line or ".rs`" in line
    for name in re.findall(r"`([A-Za-z0-9_/.*]+\.(?:py|rs))`", line)
]


def test_there_are_modes() -> None:
    assert len(MODES) > 20


@pytest.mark.parametrize("mode", MODES)
def test_each_mode_has_a_test_of_its_answers_and_outcome(mode: str) -> None:
    cases = [TREE / "tests" / "lab_servers" / name for name in ("test_rogue.py", "test_outcomes.py")]
    for path in cases:
        text = path.read_text()
        assert f"{mode.replace('_', '-')}." in text or f'"{mode}"' in text, (
            f"{path.name} has no case for {mode}"
        )


@pytest.mark.parametrize("name", NAMED)
def test_cases_of_other_files_exist(name: str) -> None:
    assert any(TREE.glob(name if "/" in name else f"tests/**/{name}")), name
