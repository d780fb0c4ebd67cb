"""Between two things to do the prober sleeps: its waits are counted, whatever the machine's speed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.waits import counted

from .conftest import FAST, LOOPBACK, argv, write_targets


# A pass of the loop has two waits: it sleeps, and it asks which ports have something to read. One probe
# alone has a pass for each of its events: it leaves, is answered twice, settles, is closed. From 50 probes
# per second on they share passes: one for each that leaves, and from 250 on one in 4 ms.
@pytest.mark.parametrize(
    ("rate", "count", "each"), [(1, 3, 12), (50, 100, 3), (200, 600, 3), (500, 1500, 1.5), (1000, 3000, 1)]
)
def test_probes_share_waits(responder: int, tmp_path: Path, rate: int, count: int, each: float) -> None:
    targets = write_targets(
        tmp_path / "t.csv",
        [(f"127.3.{n // 200}.{n % 200 + 1}", f"n{n}.test", responder) for n in range(count)],
    )
    options = ["--targets", targets, *LOOPBACK, *FAST, "--rate", rate, "--linger-ms", 200]
    done, waits = counted(argv(*options), tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count('"outcome":"iack"') == count
    # While the last probes linger, and where none is in flight, the prober looks for signals and deadlines.
    assert 0 < waits <= each * count + 20 * (count / rate + 3), waits
