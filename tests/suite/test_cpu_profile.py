"""The profile of the tests: a test's cost includes its setup, teardown and child processes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.cpu_profile import NodeCost, table

BURN = "import time\nwhile time.process_time() < 0.15: pass"
MODULE = f"""
import subprocess, sys, pytest
@pytest.fixture
def costly():
    subprocess.run([sys.executable, "-c", {BURN!r}], check=True)
    yield
    subprocess.run([sys.executable, "-c", {BURN!r}], check=True)
def test_costly(costly): pass
def test_cheap(): pass
"""


def test_set_up_tear_down_and_children_count(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(MODULE)
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "tests.cpu_profile", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*argv, "--rootdir", str(tmp_path), "-c", "/dev/null", str(tmp_path)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    cost = {name: float(s) for s, name in re.findall(r"^ +(\S+) +\S+  test_it.py::(\w+)$", done.stdout, re.M)}
    assert cost["test_costly"] >= 0.3 and cost["test_cheap"] < 0.15


def test_folders_modules_and_tests_are_sorted_by_cost() -> None:
    costs = [NodeCost("tests/a/test_x.py::one", 1, 5), NodeCost("tests/b/test_y.py::two[a/b::c]", 3, 2)]
    costs.append(NodeCost("tests/a/test_x.py::three", 2.5, 1))
    lines = [line.split() for line in table(costs) if line and "CPU" not in line]
    assert lines == [
        ["3.5", "6.0", "2", "tests/a"],
        ["3.0", "2.0", "1", "tests/b"],
        ["6.5", "8.0", "3", "all"],
        ["3.5", "6.0", "2", "tests/a/test_x.py"],
        ["3.0", "2.0", "1", "tests/b/test_y.py"],
        ["3.0", "2.0", "tests/b/test_y.py::two[a/b::c]"],
        ["2.5", "1.0", "tests/a/test_x.py::three"],
        ["1.0", "5.0", "tests/a/test_x.py::one"],
    ]
