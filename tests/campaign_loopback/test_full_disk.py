"""A disk that fills up during a campaign: one sentence, nothing lost, and --resume continues."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq

from tests.waiting import PATIENCE_S

from .world import FIRSTFLIGHT, CampaignWorld, addresses

# Enough space for the settings and the targets, not for the captures.
SCRIPT = """
mount -t tmpfs -o size=300k none {runs}
{firstflight} campaign run --config {config} >{folder}/first.out 2>{folder}/first.err
echo $? >{folder}/first.status
mount -o remount,size=50m {runs}
{firstflight} campaign run --resume $(ls {runs}) >{folder}/second.out 2>{folder}/second.err
echo $? >{folder}/second.status
cp -r {runs}/. {folder}/kept
"""


def test_a_full_disk_is_reported_in_one_sentence_and_resumed(tmp_path: Path) -> None:
    world = CampaignWorld(tmp_path)
    (tmp_path / "runs").mkdir()
    (tmp_path / "kept").mkdir()
    script = SCRIPT.format(
        runs=tmp_path / "runs",
        folder=tmp_path,
        firstflight=shlex.join(FIRSTFLIGHT),
        config=world.settings(),
    )
    # A separate mount namespace; without root also a user namespace.
    unshare = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "--map-root-user"]
    try:
        world.raise_it()
        done = subprocess.run(
            [*unshare, "sh", "-c", script],
            env=world.environment,
            cwd=tmp_path,
            capture_output=True,
            timeout=PATIENCE_S,
        )
    finally:
        world.end()
    assert done.returncode == 0, done.stderr.decode()

    stderr = (tmp_path / "first.err").read_text()
    assert (tmp_path / "first.status").read_text() == "3\n", stderr
    assert "warning: disk: " in stderr
    assert "full" in stderr or "No space left on device" in stderr
    assert "Traceback" not in stderr

    assert (tmp_path / "second.status").read_text() == "0\n", (tmp_path / "second.err").read_text()
    (run,) = (tmp_path / "kept").iterdir()
    for vantage in ("east", "west"):
        table = pq.read_table(run / vantage / "1" / "probe" / "quic_probe.parquet", columns=["domain"])
        assert Counter(table["domain"].to_pylist()) == Counter(list(addresses()))
