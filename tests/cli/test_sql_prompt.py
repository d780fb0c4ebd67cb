"""The history of the prompt for statements."""

from __future__ import annotations

import readline
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.look import sql_prompt


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    yield tmp_path / "firstflight"
    readline.clear_history()


def test_an_error_at_the_prompt_is_raised_and_the_history_kept(state: Path) -> None:
    with pytest.raises(OSError, match="standard output"), sql_prompt.history() as file:
        assert file is not None
        file.write("SELECT 1\n")
        raise OSError("cannot write on standard output")
    assert (state / "sql_history").read_text() == "SELECT 1\n"


def test_a_long_history_is_shortened(state: Path) -> None:
    state.mkdir()
    (state / "sql_history").write_text("".join(f"SELECT {n}\n" for n in range(2001)))
    with sql_prompt.history() as file:
        assert file is not None
        file.write("SELECT 1\n")
    kept = (state / "sql_history").read_text().splitlines()
    assert (len(kept), kept[0], kept[-1]) == (1001, "SELECT 1001", "SELECT 1")


def test_without_a_folder_there_is_no_history(state: Path) -> None:
    state.write_text("a file")
    with sql_prompt.history() as file:
        assert file is None
