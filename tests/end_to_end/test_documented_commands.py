"""A reader who follows the README or a tutorial in the lab sees what the page shows.

A command that is not in `NOT_RUN` runs. Its output has the documented lines and no others, in any order,
because rows are printed as they arrive. Only times may differ (`masked`). tests/docs/test_commands.py checks
that every command and option exists.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import on_terminal
from tests.docs.pages import PAGES, PageCommand, commands, python_blocks, unread
from tests.end_to_end.conftest import FinishedCampaign, FinishedDownloads
from tests.end_to_end.site import FIRSTFLIGHT, ROOT
from tests.queries.testbed.test_gain import some_rows, written
from tests.waiting import PATIENCE_S

READ = [page for page in PAGES if "how-to" not in page.parts]
SHOWN = [shown for page in READ for shown in commands(page)]
# The campaign that a page's commands read.
Measured = FinishedCampaign | FinishedDownloads
OWN_LIST = "campaign run --config own-list.toml"

# Command -> why it does not run here.
NOT_RUN = {
    "make demo": "builds; another test below compares its table",
    "make demo-downloads": "builds; the fixture `downloads` runs its campaign",
    "make airflow": "builds; tests/airflow/test_site.py starts this site",
    "make testbed-demo": "builds a kernel; tests/testbed/guests runs this experiment",
    "firstflight lab up": "the fixture `site` starts the lab",
    "firstflight lab down": "the fixture `site` removes the lab",
    f"firstflight {OWN_LIST}": "probes hosts on the Internet; the fixture `finished` runs these stages",
    f"firstflight {OWN_LIST} --set handshake.enabled=true --set handshake.share=0.1": "the same",
    f"firstflight {OWN_LIST} --set crawl.enabled=true --set tcp_options.enabled=true"
    " --set download.enabled=true": "the same; the fixture `downloads` runs these stages",
    "firstflight testbed run iack-ttfb --seeds 10 --cells quic-go-aioquic": "starts guests",
}


def text(shown: PageCommand) -> str:
    """Return a command without its page."""
    return " ".join(shown.words)


def masked(line: str) -> str:
    """Return a line with times replaced, because they differ between runs."""
    return re.sub(r"\b\d+(?:\.\d+)? (us|ms|s)\b", r"# \1", line)


def sorted_lines(printed: str) -> list[str]:
    """Return the masked lines of an output, sorted."""
    return sorted(map(masked, printed.splitlines()))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A reader's working folder, with trials of the testbed."""
    for name in ("examples", "tests"):
        (tmp_path / name).symlink_to(ROOT / name)
    written(tmp_path / "var" / "testbed", some_rows())
    return tmp_path


def run(shown: PageCommand, measured: Measured, folder: Path) -> tuple[int, str, str]:
    """Run a command; return its exit status, standard output and messages."""
    program, *words = [measured.run if word == "RUN" else word for word in shown.words]
    if words[:3] == ["campaign", "run", "--config"] or words[0] == "doctor":
        words = ["lab", "exec", "hamburg", "firstflight", *words]
    argv = [FIRSTFLIGHT if program == "firstflight" else program, *words]
    environment = measured.site.environment
    if words[:2] == ["lab", "exec"] and shown.output:  # a terminal gets text, a pipe JSON
        return on_terminal.run(argv, folder, environment)
    done = subprocess.run(
        argv, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    if program == "cp":  # "Edit own-list.toml"
        settings = folder / "own-list.toml"
        edited = settings.read_text(encoding="utf-8").replace('contact = ""', 'contact = "you@example.org"')
        settings.write_text(edited, encoding="utf-8")
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("page", READ, ids=lambda page: page.name)
def test_the_commands_of_a_page_run(page: Path, folder: Path, request: pytest.FixtureRequest) -> None:
    """In the order of the page, as a reader runs them."""
    measured = request.getfixturevalue("downloads" if page.name == "downloads.md" else "finished")
    for shown in commands(page):
        if text(shown) in NOT_RUN:
            continue
        status, printed, messages = run(shown, measured, folder)
        assert (status, printed + messages != "") == (0, shown.words[0] != "cp"), f"{shown}: {messages}"
        if shown.output:
            assert sorted_lines(printed) == sorted_lines("\n".join(shown.output)), str(shown)


def test_the_python_blocks_of_the_tutorial_run(finished: FinishedCampaign, folder: Path) -> None:
    (page,) = [page for page in READ if python_blocks(page)]
    done = subprocess.run(
        [sys.executable, "-c", python_blocks(page)], cwd=folder, env=finished.site.environment, check=False
    )
    assert (page.name, done.returncode) == ("notebook.md", 0)


def test_every_block_is_run_or_has_a_reason() -> None:
    assert [block for page in READ for block in unread(page)] == []
    assert NOT_RUN.keys() <= {text(shown) for shown in SHOWN}


def words(line: str) -> list[str]:
    """Return a line's words, truncated as in the README."""
    return line[:92].split()


def test_the_demo_prints_the_table_of_the_readme(finished: FinishedCampaign, tmp_path: Path) -> None:
    """The lab declares the shares, and the intervals have a fixed seed."""
    (demo,) = [shown for shown in SHOWN if text(shown) == "make demo" and shown.output]
    truth = tmp_path / "truth.jsonl"
    truth.write_text(finished.site.firstflight("lab", "truth", "--table1"), encoding="utf-8")
    printed = finished.site.firstflight("report", "table1", "--run", finished.run, "--truth", str(truth))
    lines = [words(line) for line in printed.splitlines()]
    assert len(demo.output) == 10
    assert [line for line in demo.output if words(line) not in lines] == []


def test_only_times_are_masked() -> None:
    shown = "site-001.fastly.test  198.18.64.1  ACK and ServerHello together after 8.9 ms, Fastly"
    assert masked(shown) == masked(shown.replace("8.9", "12.34")) != masked(shown.replace("64.1", "64.2"))
    assert masked(shown) != masked(shown.replace("together after 8.9 ms", "together"))
