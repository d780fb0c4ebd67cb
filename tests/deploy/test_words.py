"""Which names and lines the check of words refuses."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

PATH = Path(__file__).parents[2] / "deploy" / "words.py"
_SPEC = importlib.util.spec_from_file_location("words", PATH)
assert _SPEC is not None and _SPEC.loader is not None
words = importlib.util.module_from_spec(_SPEC)
sys.modules["words"] = words
_SPEC.loader.exec_module(words)


@pytest.mark.parametrize(
    ("path", "text", "faults"),
    [
        ("scanner/gate.py", "", ["a file is called gate"]),
        ("tests/test_life.py", "", ["a file is called test_life"]),
        ("scanner/alive.py", "", []),
        ("a.py", "class RightOfWay: ...", ["a type is called RightOfWay"]),
        ("a.py", "class LifecycleState: ...", []),
        ("a.py", "def _hold(): ...", ["a function is called _hold"]),
        ("a.py", "def hold_back(): ...", []),
        ("a.py", "hold = 1", []),
        ("a.rs", "pub struct PacketSeen {", ["a type is called PacketSeen"]),
        ("a.rs", "mod ended;", ["a function is called ended"]),
        ("a.rs", "fn opening() {}", ["a function is called opening"]),
        ("a.rs", "fn reopening() {}", []),
        ("a.go", "func (s *server) hold() {", ["a function is called hold"]),
        ("tests/fixtures/gate.py", "", []),
    ],
)
def test_names(path: str, text: str, faults: list[str]) -> None:
    assert [fault.text.partition(":")[0] for fault in words.in_names(path, text)] == faults


@pytest.mark.parametrize(
    ("path", "text", "lines"),
    [
        ("a.py", "# it is told\n# plain\nx = 'Said so'\n", [1, 3]),
        ("a.md", "laid to the wrong one, anew\n", [1]),
        ("a.rs", "// reckoned by hand\n", [1]),
        ("a.md", "a beforehand remark, unsaid\n", []),
        ("a.bin", "told\n", []),
        ("CHANGELOG.md", "told\n", []),
    ],
)
def test_prose(path: str, text: str, lines: list[int]) -> None:
    assert [fault.line for fault in words.in_prose(path, text)] == lines
