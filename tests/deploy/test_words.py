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
    ("path", "text", "prose"),
    [
        ("a.py", '"""Say `a b`."""\nx = "no # comment"  # one, two\n', "one two say x"),
        ("a.py", 'x = 1\n"""Of a variable."""\ny = \'it # is\'\n', "of a variable"),
        (
            "a.rs",
            'let a = "no // comment"; // one\n/// two\n/* three */ let b = \'"\'; // four\n',
            "one two three four",
        ),
        ("a.go", "// one\nfunc two() {}\n", "one"),
        ("a.sql", "SELECT 1 -- one\n", "one"),
        ("a.toml", "# one\na = 'two'\n", "one"),
        ("a.md", "one [two](three.md)\n```\nfour\n```\n\n    five\n", "one two"),
        ("a.html", "<p class='a'>one</p><script>two()</script>{{ three }}", "one"),
        ("a.bin", "one", ""),
        ("CHANGELOG.md", "one", ""),
        ("tests/fixtures/a.md", "one", ""),
    ],
)
def test_prose(path: str, text: str, prose: str) -> None:
    assert words.words(path, text) == prose.split()


def test_count_of_phrases() -> None:
    prose = ["what", "is", "of", "its", "own", "is", "what", "is"]
    assert words.count(prose, ["what is", "of its own", "own", "is none"]) == {
        "what is": 2,
        "of its own": 1,
        "own": 1,
        "is none": 0,
    }


@pytest.mark.parametrize(
    ("uses", "exceeding"),
    [
        ({"of": 300, "beside": 3}, []),
        ({"of": 301, "beside": 3}, []),  # one phrase above three times is allowed
        ({"of": 301, "beside": 4}, ["2 phrases are more than 3 times"]),
        ({"of": 0, "beside": 11}, ["1 phrases are more than 10 times"]),
    ],
)
def test_limits(uses: dict[str, int], exceeding: list[str]) -> None:
    field = words.Field({"of": 100.0, "beside": 0.0}, {3.0: 1, 10.0: 0}, ("zmap",))
    prose = [word for word, times in uses.items() for _ in range(times)]
    prose += ["x"] * (words.PER_WORDS - len(prose))
    lines = words.exceeded(words.compare(prose, field), field)
    assert [line.partition(" as ")[0] for line in lines if not line.startswith(" ")] == exceeding


def test_data_file_names_rates_limits_and_source() -> None:
    field = words.read_field(words.RATES)
    assert len(field.source) == 8
    assert set(field.limits) >= {3.0, 10.0}
    assert all(phrase == phrase.lower() and len(phrase.split()) <= 3 for phrase in field.rates)
