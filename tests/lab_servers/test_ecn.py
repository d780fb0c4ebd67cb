"""The lab's stacks mirror ECN marks as their manifests declare."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from firstflight.system import binaries
from lab import stacks
from tests.waiting import PATIENCE_S

from .running import HOST, RunningServer


def probe(server: RunningServer, folder: Path, mark: str, names: list[str]) -> dict[str, dict[str, Any]]:
    """Return each name's row from probes with an ECN mark."""
    targets = folder / "targets.csv"
    targets.write_text("ip,domain,port\n" + "".join(f"{HOST},{name},{server.port}\n" for name in names))
    done = subprocess.run(
        [
            str(binaries.find("firstflight-prober")),
            *("--targets", str(targets), "--allow-net", "127.0.0.0/8", "--ecn", mark),
            *("--per-address-rate", "0", "--per-prefix-rate", "0", "--timeout", "30"),
        ],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    return {row["domain"]: row for row in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("mark", ["ect0", "ect1"])
@pytest.mark.parametrize("server", ["quiche", "aioquic", "quic-go"], indirect=True)
def test_real_stacks(server: RunningServer, tmp_path: Path, mark: str) -> None:
    names = ["wait.small.test", "wait.large.test"]
    for name, row in probe(server, tmp_path, mark, names).items():
        counts = [row[f"ack_{each}"] for each in ("ect0", "ect1", "ce")]
        if stacks.find(server.stack).mirrors_ecn:
            assert (row["ecn_verdict"], counts) == ("valid", [mark == "ect0", mark == "ect1", 0]), name
        else:
            assert (row["ecn_verdict"], counts) == ("not_mirrored", [None] * 3), name


@pytest.mark.parametrize("server", ["rogue"], indirect=True)
def test_rogue_modes(server: RunningServer, tmp_path: Path) -> None:
    manifest = stacks.find("rogue")
    counts = {
        "ack_ecn": [1, 0, 0],
        "ecn_too_many": [7, 0, 0],
        "ecn_other_mark": [0, 1, 0],
        "ecn_congested": [0, 0, 1],
        "ecn_zero": [0, 0, 0],
        "ecn_decreasing": [1, 0, 0],
    }
    assert counts.keys() == manifest.ecn.keys()
    names = {f"{mode.replace('_', '-')}.small.test": mode for mode in [*counts, "small_ack"]}
    for name, row in probe(server, tmp_path, "ect0", list(names)).items():
        mode = names[name]
        seen = [row[f"ack_{each}"] for each in ("ect0", "ect1", "ce")]
        assert row["ecn_verdict"] == manifest.ecn.get(mode, "not_mirrored"), name
        assert seen == counts.get(mode, [None] * 3), name
        assert row["received_ect0"] == 0, "the rogue sets no ECN marks"
