"""The import contracts in pyproject.toml hold, and breaking a contract fails the build."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CONTRACTS = PROJECT["tool"]["importlinter"]["contracts"]
PACKAGES = PROJECT["tool"]["importlinter"]["root_packages"]
LINT = str(Path(sys.executable).with_name("lint-imports"))

# Contract -> (file of the copy, import that breaks it).
BREAKS = {
    "The house stands in one direction": ("scanner/driver/feed.py", "import orchestration.runner"),
    "Nothing imports benches and tests": ("reports/wording.py", "import tests.waiting"),
    "Inside the command line": ("cli/shared/table.py", "import cli.look.sql"),
    "The lab uses nothing that it tests": ("lab/declared/draw.py", "import scanner.driver.feed"),
    "Inside the lab": ("lab/system/mounts.py", "import lab.hosts.dns"),
    "Inside firstflight": ("firstflight/system/files.py", "import firstflight.layout"),
    "Inside the system": ("firstflight/system/terminal.py", "import firstflight.system.lock"),
    "Inside scanner": ("scanner/driver/feed.py", "import scanner.planned.probes"),
    "Inside orchestration": ("orchestration/runner.py", "import orchestration.stages"),
    "Inside reports": ("reports/numbers/truth.py", "import reports.page.page"),
    "Inside the report of downloads": ("reports/downloads/tables.py", "import reports.downloads.page"),
    "Inside the dashboard:": ("reports/dashboard/pages/queries.py", "import reports.dashboard.app"),
    "Inside the dashboard's pages": (
        "reports/dashboard/pages/filters.py",
        "import reports.dashboard.pages.panel_table",
    ),
    "Inside what asks the store": (
        "reports/dashboard/asking/faults.py",
        "import reports.dashboard.asking.asker",
    ),
    "Inside testbed": ("testbed/guest/kernel.py", "import testbed.trials.block"),
    "Inside the trials of the testbed": ("testbed/trials/network/path.py", "import testbed.trials.series"),
    "Inside crawler": ("crawler/lists/own_list.py", "import crawler.routing.rib"),
    "Inside the crawl": ("crawler/files/pages/urls.py", "import crawler.files.visit"),
    "Inside downloader": ("downloader/results/outcome.py", "import downloader.transfers.worker"),
    "Inside store": ("store/address/url.py", "import store.location"),
    "Inside the backends": ("store/backends/driver.py", "import store.backends.remote"),
    "Inside the engine's room": ("store/engine/access.py", "import store.engine.session"),
    "Only orchestration.airflow imports Airflow": ("orchestration/site/site.py", "import airflow"),
    "Only the store imports the engine": ("reports/wording.py", "import clickhouse_driver"),
    "Only reports import matplotlib": ("store/load/units.py", "import matplotlib"),
    "Only the dashboard and the centre's interface": ("reports/trace.py", "import starlette"),
    "Only the crawl imports Scrapy": ("firstflight/as_map.py", "import scrapy"),
}

# A stage's folder that no contract names (deploy/contracts.py), and the imports that break its contract.
NEW_STAGE = "scanner/new_stage/__init__.py"
OF_NEW_STAGE = (
    ("scanner/sampled.py", "import scanner.new_stage"),
    ("scanner/resolve/outline.py", "import scanner.new_stage"),
    (NEW_STAGE, "import scanner.watch.outline"),
)


def linted(tree: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [LINT, "--config", str(tree / "pyproject.toml"), "--no-cache"],
        cwd=tree,
        env={"PYTHONPATH": str(tree), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the Python code and the contracts."""
    copy = tmp_path_factory.mktemp("tree")
    for name in PACKAGES:
        for path in (ROOT / name).rglob("*.py"):
            target = copy / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    for name in ("pyproject.toml", "deploy/contracts.py"):
        (copy / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(ROOT / name, copy / name)
    (copy / NEW_STAGE).parent.mkdir()
    (copy / NEW_STAGE).write_text("import scanner.sampled\n")
    return copy


def test_every_contract_has_a_test_that_breaks_it() -> None:
    names = [contract["name"] for contract in CONTRACTS]
    assert [sum(name.startswith(known) for known in BREAKS) for name in names] == [1] * len(names)
    assert len(names) == len(BREAKS)


def test_all_breaks_at_once_turn_every_contract_red(tree: Path) -> None:
    """Runs the linter once for all contracts, because each run reads the whole tree."""
    assert linted(tree).returncode == 0
    saved: dict[Path, str] = {}
    for name, line in (*BREAKS.values(), *OF_NEW_STAGE):
        path = tree / name
        saved.setdefault(path, path.read_text())
        path.write_text(f"{path.read_text()}\n{line}\n")
    done = linted(tree)
    for path, text in saved.items():
        path.write_text(text)
    assert done.returncode == 1, done.stderr
    # The output wraps long names.
    verdicts = re.sub(r"\s+", " ", done.stdout)
    for contract in CONTRACTS:
        assert f"{contract['name']} BROKEN" in verdicts, contract["name"]
    # Each contract is broken by the import intended for it.
    for name, line in (*BREAKS.values(), *OF_NEW_STAGE):
        module = name.removesuffix(".py").removesuffix("/__init__")
        importer, imported = module.replace("/", "."), line.removeprefix("import ")
        assert f"{importer} -> {imported}" in verdicts, (importer, imported)


# Modules of this project that the lab may import. It must not share faults with the code under test.
LAB_MAY_USE = {"lab", "firstflight.errors", "firstflight.system.binaries"}


def ours(text: str) -> set[str]:
    """Return the modules of this project that Python code imports."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            # `from package import module`, or a name in a module.
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in found if name.partition(".")[0] in PACKAGES}


def not_allowed(text: str) -> set[str]:
    return {
        name
        for name in ours(text)
        if not any(f"{name}.".startswith(f"{package}.") for package in LAB_MAY_USE)
    }


def test_the_lab_imports_only_an_allow_list() -> None:
    found = {str(path): not_allowed(path.read_text()) for path in (ROOT / "lab").rglob("*.py")}
    assert {path: names for path, names in found.items() if names} == {}
    for line in ("from firstflight.system import files", "import firstflight.settings", "import store"):
        assert not_allowed(line), line


def test_dag_files_import_only_airflow_and_orchestration() -> None:
    """DAG files are not in a package, so the linter does not check them."""
    allowed = {"airflow", "orchestration", "pendulum", "__future__", "datetime"}
    for path in (ROOT / "dags").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found = {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                found = {(node.module or "").partition(".")[0]}
            else:
                continue
            assert found <= allowed, f"{path.name} imports {found - allowed}"
