"""The groups of tests (`make test-unit`, `make test-lab` ...)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import COSTLY, HALVED, group_of

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


def test_halved_and_costly_modules_exist() -> None:
    """Otherwise, a renamed module would run in full each time."""
    assert [name for name in COSTLY if not (ROOT / name).is_file()] == []
    assert list(COSTLY) == sorted(set(COSTLY))
    assert [name for name in HALVED if not (ROOT / name).is_dir()] == []
