"""The groups of tests (`make test-unit`, `make test-lab` ...)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from tests import drawn
from tests.conftest import CAMPAIGNS, COSTLY, SITE, SITE_SCENARIOS, group_of, left_out

ROOT = Path(__file__).parents[2]
# Module -> what starts a lab or servers in it.
STARTING = {
    "tests.campaign_loopback.world": {"CampaignWorld"},
    "tests.campaign_loopback.conftest": {"world"},
    "tests.download.world": {"DownloadWorld"},
    "tests.lab_servers": {"conftest"},
    "tests.lab_servers.running": {"running"},
    "tests.lab_services.conftest": {"RunningWorld", "running"},
}


def starting(file: Path) -> Iterator[str]:
    """Yield what a test module imports that starts a lab or servers."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            names = {alias.name for alias in node.names} & STARTING.get(node.module or "", set())
            yield from (f"{node.module}.{name}" for name in sorted(names))


def test_no_unit_test_starts_a_lab_or_servers() -> None:
    found = {
        str(file.relative_to(ROOT)): list(starting(file)) for file in sorted(ROOT.glob("tests/**/test_*.py"))
    }
    starting_files = {name for name, what in found.items() if what}
    assert len(starting_files) > 20
    assert {name for name in starting_files if group_of(name, ()) == "unit"} == set()


def test_what_is_sampled_exists() -> None:
    """Otherwise, a renamed module or test would run each time."""
    assert [name for name in COSTLY if not (ROOT / name).is_file()] == []
    assert list(COSTLY) == sorted(set(COSTLY))
    assert [name for name in CAMPAIGNS if not (ROOT / name).is_dir()] == []
    defined = {
        f"{SITE}::{node.name}"
        for node in ast.parse((ROOT / SITE).read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }
    assert [name for name in chain.from_iterable(SITE_SCENARIOS) if name not in defined] == []


def test_a_sample_leaves_out_three_quarters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(drawn.ALL, raising=False)
    cheap = ["tests/cli/test_doctor.py"]
    campaigns = [f"{CAMPAIGNS[0]}test_{n}.py" for n in range(5)]
    seen: set[str] = set()
    for seed in range(60):
        monkeypatch.setenv(drawn.SEED, str(seed))
        without = left_out([*campaigns, *cheap] * 2)
        assert len([name for name in without if name in campaigns]) == 3
        assert len([name for name in without if name in COSTLY]) == 3 * len(COSTLY) // 4
        assert len([s for s in SITE_SCENARIOS if s[0] in without]) == 4
        assert not set(cheap).intersection(without)
        seen |= {*campaigns, *COSTLY}.difference(without)
    assert seen == {*campaigns, *COSTLY}
    monkeypatch.setenv(drawn.ALL, "1")
    assert left_out(campaigns) == ()
