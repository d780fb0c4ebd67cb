"""`make test-long`: a failed group does not stop the others, and the table has the result of each group."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests import long
from tests.long import Group, GroupResult


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "....\n12 passed, 1 skipped in 3.21s\ncostly cases: all\n",
            "12 passed, 1 skipped in 3.21s",
        ),
        ("F\n=== 1 failed, 2 passed in 0.5s ===\n", "1 failed, 2 passed in 0.5s"),
        ("test result: ok. 3 passed; 0 failed; finished in 0.1s\nlast line\n", "ok. 3 passed; 0 failed"),
        ("0 of 3 rounds failed\n\n", "0 of 3 rounds failed"),
        ("", "no output"),
    ],
)
def test_the_closing_line(text: str, expected: str) -> None:
    assert long.closing(text) == expected


def test_output_and_status_are_kept(tmp_path: Path) -> None:
    code = "import os; print(os.environ['WORD']); raise SystemExit(3)"
    result = long.run("own", Group("fails", (sys.executable, "-c", code), {"WORD": "stated"}), tmp_path)
    assert (result.name, result.status, result.closing) == ("own", 3, "stated")
    assert (tmp_path / "own.log").read_text() == "stated\n"


def test_the_table_says_how_each_ended(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ends = {"drawn": 2, "dist": 0}
    monkeypatch.setattr(long, "run", lambda name, group: GroupResult(name, ends[name], 90, group.meaning))
    assert long.main(["--group", "drawn", "--group", "dist"]) == 1
    lines = capsys.readouterr().out.splitlines()
    words = [line.split() for line in lines[1:]]
    assert words[0][:4] == ["drawn", "exit", "2", "1.5"] and words[1][:3] == ["dist", "passed", "1.5"]
    assert long.main(["--group", "dist"]) == 0


def test_targets_of_the_makefile_exist() -> None:
    text = (long.TREE / "Makefile").read_text()
    targets = [group.argv[1] for group in long.GROUPS.values() if group.argv[0] == "make"]
    assert len(targets) >= 5 and all(f"\n{target}: " in text for target in targets)


def test_an_unknown_group_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        long.main(["--group", "none"])
    assert ended.value.code == 2 and "soak" in capsys.readouterr().err
