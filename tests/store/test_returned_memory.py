"""What a query of a reader has freed does not stay in the process: a report asks some forty."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from store import open_store

# Their arrays take some 60 MB.
_ASKS = """
import sys
from pathlib import Path
from store import open_store

def anonymous_mb():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:")) / 1024

with open_store(sys.argv[1]) as store:
    store.rows("SELECT 1 AS one")
    print(anonymous_mb())
    for _ in range(8):
        store.rows(
            "SELECT number % 5 AS of, length(quantilesExactInclusive(0.25, 0.5)(number % 1000003)) AS n "
            "FROM numbers_mt(4000000) GROUP BY of"
        )
        print(anonymous_mb())
"""


def test_a_reader_keeps_no_memory_of_earlier_queries(tmp_path: Path) -> None:
    location = f"chdb:{tmp_path / 'store'}"
    with open_store(location, write=True):
        pass
    asked = subprocess.run(
        [sys.executable, "-P", "-c", _ASKS, location], stdout=subprocess.PIPE, text=True, check=True
    )
    before, *after = map(float, asked.stdout.split())
    assert len(after) == 8
    assert max(after) < before + 20
