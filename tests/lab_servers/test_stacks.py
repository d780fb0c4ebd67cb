"""The manifests of the lab's QUIC stacks are correct, documented, and checked before a lab starts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from firstflight.errors import UsageError
from lab import stacks
from lab.declared import behaviour

RIGHT = 'program = "firstflight-edge"\nmodes = ["wait"]\n'


def test_every_folder_has_a_manifest() -> None:
    folders = {path.name for path in stacks.FOLDER.iterdir() if any(path.glob("*.*"))} - {"__pycache__"}
    assert set(stacks.load()) == folders


@pytest.mark.parametrize("name", [name for name, stack in stacks.load().items() if stack.program])
def test_the_readme_describes_every_mode_and_no_other(name: str) -> None:
    readme = (stacks.FOLDER / name / "README.md").read_text()
    assert set(re.findall(r"^\| `(\w+)` \|", readme, re.MULTILINE)) == stacks.find(name).modes


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (RIGHT, None),
        (RIGHT.replace("program", "modul"), "is wrong at modul: Extra inputs are not permitted"),
        (RIGHT + 'module = "lab.stacks.one"\n', "give either `program` or `module`"),
        ('modes = ["wait"]\n', "give either `program` or `module`"),
        (RIGHT.replace('"wait"', ""), "is wrong at modes: "),
        (RIGHT.replace("firstflight-edge", "../sh"), "is wrong at program: "),
        ('module = "os"\nmodes = ["wait"]\n', "is wrong at module: "),
        ("program = ", "is not TOML: "),
    ],
)
def test_a_wrong_manifest_is_one_sentence(text: str, problem: str | None, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "manifest.toml").write_text(text)
    if problem is None:
        assert stacks.load(tmp_path)["mine"].modes == {"wait"}
        return
    with pytest.raises(UsageError) as raised:
        stacks.load(tmp_path)
    assert problem in str(raised.value) and str(tmp_path / "mine") in str(raised.value)


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        (
            'stack = "aioquic"',
            'stack = "picoquic"',
            "there is no stack 'picoquic' in lab/stacks, only",
        ),
        ('"aioquic", "quic-go"]', '"rogue"]', "rogue has no mode 'wait', only"),
        ('mode = "chatty"', 'mode = "iack"', "rogue has no mode 'iack', only"),
    ],
)
def test_a_behaviour_file_names_existing_stacks_and_modes(
    before: str, after: str, problem: str, tmp_path: Path
) -> None:
    text = (stacks.FOLDER.parent / "internet.toml").read_text()
    assert before in text
    (tmp_path / "changed.toml").write_text(text.replace(before, after, 1))
    with pytest.raises(UsageError, match=re.escape(problem)):
        behaviour.read(tmp_path / "changed.toml")
