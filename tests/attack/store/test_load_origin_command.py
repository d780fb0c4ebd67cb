"""`firstflight load` with a file that has the name of our run but another origin."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from store import open_store
from tests.attack.store.test_load_origin import one_row, stored
from tests.attack.store.test_load_origin import ours as ours

pytestmark = pytest.mark.usefixtures("tables")

FIRSTFLIGHT = str(Path(sys.executable).parent / "firstflight")


def test_the_command_refuses_it_and_replaces_it_with_the_option(ours: Path, tmp_path: Path) -> None:
    assert ours.is_dir()
    (path,) = one_row(tmp_path / "stranger")

    def load(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([FIRSTFLIGHT, "load", str(path), *words], capture_output=True, text=True)

    refused = load()
    assert refused.returncode == 3 and "another origin" in refused.stderr
    assert stored()[0]["probes"] == 500
    replaced = load("--replace")
    assert replaced.returncode == 0 and "1 replaced" in replaced.stdout
    assert stored()[0]["probes"] == 1
    with open_store() as store:
        (row,) = store.rows("SELECT DISTINCT source_file FROM quic_probe")
    # source_file differs from our run's files, and contains no path of this machine.
    assert row["source_file"].startswith("outside/") and str(tmp_path) not in row["source_file"]
