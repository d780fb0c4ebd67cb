"""A crawl's memory grows neither with the number of names nor with the servers' answers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bench import process
from tests.crawl_files.world import CrawlWorld
from tests.waiting import PATIENCE_S

# Each server sends forever, or much more than the crawl keeps.
GREEDY = ["robots-endless", "giant-page", "endless-fields", "bomb", "no-length"]
# Millions of bytes: the text of a page of 1 MB, 500 KiB of rules; their servers send up to 64 MB each.
MOST_MB = 100.0


def test_memory_does_not_grow_with_the_names() -> None:
    """800 more names. An open connection costs about 20 kB, so the limit of 8 MB is less than half of 800."""
    argv = [sys.executable, "-m", "bench.engines.crawl", "--names", "600", "1400", "--limit", "8"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1,400 files found" in done.stdout


def test_memory_is_bounded_whatever_servers_send(world: CrawlWorld, tmp_path: Path) -> None:
    peaks = []
    for labels in (["one"], GREEDY):
        targets = tmp_path / "targets.csv"
        targets.write_text("domain\n" + "".join(f"{label}.downloads.test\n" for label in labels))
        out = tmp_path / "out"
        peaks.append(process.run(world.argv(targets), out=out, quiet=True).peak_mb)
        assert out.read_text().count("\n") == len(labels)
    assert peaks[1] - peaks[0] < MOST_MB, peaks
