"""Commands in the README and the tutorials run in the lab, and print the documented output.

This file does not run commands that build (`make`), start or remove a lab, or need a contact.
tests/docs/test_commands.py checks that they exist.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests import on_terminal
from tests.docs.pages import PAGES, PageCommand, commands
from tests.end_to_end.conftest import FinishedCampaign
from tests.end_to_end.site import FIRSTFLIGHT, ROOT

READS = {"dissect", "query", "report", "runs", "schema", "sql", "trace"}
# Its commands need downloads, and this campaign has no downloads.
DOWNLOADS = "docs/tutorials/downloads.md"
SHOWN = [shown for page in PAGES if "how-to" not in page.parts for shown in commands(page)]


def runs_here(shown: PageCommand) -> bool:
    """Return whether a command only reads, or probes the lab."""
    program, *words = shown.words
    if program != "firstflight" or shown.page == DOWNLOADS:
        return False
    return words[0] in READS or words[:2] == ["lab", "exec"]


def masked(line: str) -> str:
    """Return a line with its numbers replaced, because times differ between runs."""
    return re.sub(r"\d+", "#", line)


def missing(shown: tuple[str, ...], printed: str) -> list[str]:
    """Return the documented lines that are missing in the output, in their order.

    `...` matches any text. Numbers may differ.
    """
    absent = []
    for line in shown:
        parts = [re.escape(masked(part.strip())) for part in line.split("...") if part.strip()]
        if not re.search(".*".join(parts), masked(printed)):
            absent.append(line)
    return absent


@pytest.fixture(scope="module")
def folder(finished: FinishedCampaign, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder with the files that the pages name. Commands write their files there."""
    assert finished.run
    made = tmp_path_factory.mktemp("checkout")
    for name in ("examples", "tests"):
        (made / name).symlink_to(ROOT / name)
    return made


@pytest.mark.parametrize("shown", [shown for shown in SHOWN if runs_here(shown)], ids=str)
def test_a_command_of_a_page_runs(shown: PageCommand, finished: FinishedCampaign, folder: Path) -> None:
    words = [finished.run if word == "RUN" else word for word in shown.words[1:]]
    argv, environment = [FIRSTFLIGHT, *words], finished.site.environment
    if words[:2] == ["lab", "exec"] and shown.output:  # output on a terminal
        status, printed, messages = on_terminal.run(argv, folder, environment)
    else:
        done = subprocess.run(
            argv, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        status, printed, messages = done.returncode, done.stdout, done.stderr
    assert (status, printed != "") == (0, True), messages
    assert missing(shown.output, printed) == []


def words(line: str) -> list[str]:
    """Return a line's words, truncated as in the README."""
    return line[:92].split()


def test_the_demo_prints_the_table_of_the_readme(finished: FinishedCampaign, folder: Path) -> None:
    """The lab declares the shares, and the intervals have a fixed seed."""
    (demo,) = [shown for shown in SHOWN if shown.words == ("make", "demo") and shown.output]
    truth = folder / "truth.jsonl"
    truth.write_text(finished.site.firstflight("lab", "truth", "--table1"), encoding="utf-8")
    printed = finished.site.firstflight("report", "table1", "--run", finished.run, "--truth", str(truth))
    lines = [words(line) for line in printed.splitlines()]
    assert len(demo.output) == 10
    assert [line for line in demo.output if words(line) not in lines] == []


def test_output_that_differs_is_found() -> None:
    printed = '{"domain":"a","outcome":"iack","ack_us":12}'
    assert missing(('{"domain":"a", ... "ack_us":7}',), printed) == []
    assert missing(('{"domain":"b", ... "ack_us":7}',), printed) == ['{"domain":"b", ... "ack_us":7}']
