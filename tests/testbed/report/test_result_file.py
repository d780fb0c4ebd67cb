"""`show --format json`: the file of a kept result, and the table that docs make of it."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from cli.lab.testbed import command
from deploy.docs import results
from firstflight.errors import UsageError
from testbed.trials import block
from testbed.trials.captures import block_files
from tests.testbed.experiments import find
from tests.testbed.trials.test_series import left

DATE_S = 1_900_000_000
"""2030-03-17, in Unix seconds."""


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trials of Figure 5 with the server quinn: 9.2 ms are gained; one trial failed."""
    folder = tmp_path_factory.mktemp("out")
    for cell in find("iack-ttfb").cells():
        if (cell.client, cell.server) != ("quinn", "quinn"):
            continue
        (trials,) = block.blocks("iack-ttfb", cell, 2)
        first_stream_us = {"wfc": 230_700, "iack": 221_500}[cell.answering]
        place = left(
            folder,
            trials,
            first_stream_us=first_stream_us,
            client_version="1.2",
            server_version="1.3",
            tool_version="0.1",
            kernel="linux-6",
        )
        os.utime(place / block_files.ROWS, (DATE_S, DATE_S))
    return folder


def shown(capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    command(["show", *arguments, "--format", "json"], standalone_mode=False)
    return capfd.readouterr().out


def test_a_run_replaces_a_kept_result(out: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = shown(capfd, "iack-ttfb", "--out", str(out))
    content = json.loads(text)
    lines = content.pop("lines")
    assert content == {
        "result": "iack-ttfb",
        "commands": [
            "make testbed-setup",
            "firstflight testbed run iack-ttfb --jobs 2 --seeds 2 --cells quinn-quinn-",
            "firstflight testbed show iack-ttfb",
        ],
        "measured_on": "2030-03-17",
        "firstflight": ["0.1"],
        "kernel": ["linux-6"],
        "versions": {"client": {"quinn": ["1.2"]}, "server": {"quinn": ["1.3"]}},
        "trials": {"done": 4},
    }
    assert [line["gain_ms"] for line in lines] == [pytest.approx(9.2)]
    assert len(text.splitlines()) == len(content) + 5
    (tmp_path / "iack-ttfb.json").write_text(text, encoding="utf-8")
    shutil.copy(results.DOCS / "results" / "tables.toml", tmp_path)
    page = "<!-- results: imc-2024/figure-5 -->\n<!-- end -->\n"
    written = results.with_tables(page, "testbed/imc-2024.md", tmp_path)
    assert "| quinn | 9.2 | - |\n" in written and "measured on 2030-03-17.\n" in written


def test_a_computed_result_has_lines_and_a_command(capfd: pytest.CaptureFixture[str]) -> None:
    content = json.loads(shown(capfd, "iack-pto"))
    assert list(content) == ["result", "commands", "lines"]
    assert content["commands"] == ["firstflight testbed show iack-pto"] and len(content["lines"]) > 10


def test_trials_are_lines_not_a_result(out: Path) -> None:
    with pytest.raises(UsageError, match="--format json has no trials"):
        command(
            ["show", "iack-ttfb", "--out", str(out), "--part", "trials", "--format", "json"],
            standalone_mode=False,
        )
