"""A stage, a figure and a query that follow docs/extending.md work, and `make lint` accepts them.

tests/docs/test_architecture.py compares what is added here with the places that the recipes name.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.campaign_loopback.world import ANSWERING, SILENT, CampaignWorld
from tests.recipes import tree
from tests.recipes.additions import FIGURE, QUERY, STAGE

MAKEFILE = (tree.ROOT / "Makefile").read_text(encoding="utf-8")
LINT = re.findall(
    r"^\t\.venv/bin/(.*)$", re.split(r"\n\n", MAKEFILE.partition("\nlint: ")[2])[0], re.MULTILINE
)
FIRSTFLIGHT = (sys.executable, "-P", "-m", "cli")
# Tests of the tree that run over each kind, stage or query.
TESTS = (
    ("tests/port_open", ""),
    ("tests/report/test_outcome_bars.py", ""),
    ("tests/docs/test_architecture.py", ""),
    ("tests/orchestration/test_stages.py", ""),
    ("tests/store/tables/test_document.py", ""),
    ("tests/store/tables/test_migrations.py", "port_open"),
    ("tests/queries/interfaces/test_named.py", "names_by_outcome"),
)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree with one more stage, figure and query."""
    folder = tmp_path_factory.mktemp("copy")
    tree.copy(folder)
    for addition in (STAGE, FIGURE, QUERY):
        tree.add(folder, addition)
    return folder


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CampaignWorld]:
    """Servers on loopback, and settings for a campaign that measures them."""
    here = CampaignWorld(tmp_path_factory.mktemp("world"))
    try:
        here.raise_it()
        yield here
    finally:
        here.end()


def firstflight(copy: Path, world: CampaignWorld, *words: str) -> str:
    """Run a command of the copy; return the standard output."""
    done = tree.run(copy, [*FIRSTFLIGHT, *words], world.environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_lint_has_the_checks_that_run_here() -> None:
    assert [line.split()[0] for line in LINT] == ["ruff", "ruff", "mypy", "lint-imports", "python"]


@pytest.mark.parametrize("line", LINT)
def test_lint_accepts_the_additions(copy: Path, line: str) -> None:
    program, *words = line.split()
    done = tree.run(copy, [str(copy / ".venv" / "bin" / program), *words])
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_stage_is_in_a_dry_run_and_runs_in_a_campaign(copy: Path, world: CampaignWorld) -> None:
    asked = ("campaign", "run", "--config", str(world.settings()), "--repetitions", "1")
    planned = firstflight(copy, world, *asked, "--dry-run")
    assert f"\nopen ports: a TCP connection to port {world.quic_port} of each address\n" in planned
    assert planned.count("\n  port_open: ") == 2, "for each vantage point"
    run = firstflight(copy, world, *asked).splitlines()[-1]
    rows = firstflight(
        copy,
        world,
        *("sql", "--format", "TSV"),
        f"SELECT vantage, is_open, count() FROM port_open WHERE run = '{run}' GROUP BY ALL ORDER BY ALL",
    )
    # The servers have UDP ports only, and the address that opted out gets no packet.
    names = ANSWERING + SILENT
    assert [line.split("\t") for line in rows.splitlines()] == [
        [vantage, is_open, str(count)]
        for vantage in ("east", "west")
        for is_open, count in (("false", names), ("\\N", 1))
    ]
    listed = firstflight(copy, world, "stage", "--help")
    assert "port_open" in listed


def test_the_figure_is_on_the_page(copy: Path, world: CampaignWorld, tmp_path: Path) -> None:
    firstflight(copy, world, "report", "--out", str(tmp_path), "--figures", str(tmp_path))
    assert '<figure id="outcome-bars">' in (tmp_path / "index.html").read_text(encoding="utf-8")
    # From both vantage points.
    assert f"refused,{2 * SILENT}\n" in (tmp_path / "outcome-bars.csv").read_text(encoding="utf-8")


def test_the_query_prints_its_answer(copy: Path, world: CampaignWorld) -> None:
    answered = firstflight(copy, world, "query", "names_by_outcome", "--format", "TSV")
    assert f"refused\t{SILENT}" in answered
    assert "names_by_outcome" in firstflight(copy, world, "query")


@pytest.mark.parametrize(("path", "chosen"), TESTS, ids=[path for path, _ in TESTS])
def test_the_tests_of_the_tree_accept_the_additions(copy: Path, path: str, chosen: str) -> None:
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", chosen, path]
    done = tree.run(copy, argv)
    assert done.returncode == 0, done.stdout[-4000:]
    assert " passed" in done.stdout
