"""The survey of TCP options in `firstflight report downloads`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from store.load import loader
from tests.queries.downloads.test_option_shares import load
from tests.store.rows import RUN, download, tcp_option, write


@pytest.mark.usefixtures("tables")
def test_the_command_prints_the_survey_after_the_tables(tmp_path: Path) -> None:
    load(tmp_path, [tcp_option()])
    loader.load_files([write(tmp_path / "download.parquet", [download()], "download")])

    def report(output_format: str) -> str:
        command = [sys.executable, "-m", "cli", "report", "downloads", "--run", RUN]
        done = subprocess.run(
            [*command, "--format", output_format], capture_output=True, text=True, check=True
        )
        return done.stdout

    shown = report("table")
    assert shown.index("Table 1:") < shown.index("Table 2:") < shown.index("TCP options (section 6.1)")
    lines = [json.loads(line) for line in report("jsonl").splitlines()]
    line = {"edition": "ours", "table": "6.1", "row": "hamburg names", "column": "ecn", "value": 100}
    assert line in lines
    assert line | {"edition": "anrw", "row": "names", "value": 85.8} in lines
    assert {result["table"] for result in lines} == {"1", "2", "6.1"}
