"""An engine that cannot start gives one sentence with the reason."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FIRSTFLIGHT = str(Path(sys.executable).parent / "firstflight")


def test_too_little_memory_for_the_engine_is_one_sentence(tables: Path) -> None:
    """chDB itself says "chdb-core engine not found"."""
    assert tables.is_dir()
    done = subprocess.run(
        ["/bin/sh", "-c", 'ulimit -v 500000; exec "$@"', "sh", FIRSTFLIGHT, "sql", "SELECT 1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("firstflight: ClickHouse's engine (chDB) does not start: ")
    assert "failed to map segment" in done.stderr and "check the free memory" in done.stderr
