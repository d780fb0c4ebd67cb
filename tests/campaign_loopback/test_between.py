"""Two engines of a vantage point, one after the other: a limit below one a second holds between them."""

from __future__ import annotations

import pyarrow.parquet as pq

from .world import World

INTERVAL_S = 5


def test_a_handshake_comes_no_sooner_behind_a_probe_than_the_limit_says(world: World) -> None:
    (world.folder / "one.csv").write_text("edge0.camp.test\n")
    path = world.settings("slow_limit.toml", vantages='[[vantage]]\nname = "east"\ninterface = "lo"\n')
    changes = (
        f"targets.file={world.folder}/one.csv",
        f"probe.per_address_rate={1 / INTERVAL_S}",
        "handshake.enabled=true",
        "handshake.share=1",
    )
    done = world.campaign("--config", str(path), *(f"--set={change}" for change in changes))
    assert done.returncode == 0, done.stderr
    folder = world.folder / "runs" / done.stdout.splitlines()[-1] / "east" / "1"
    (probe,) = pq.read_table(folder / "probe" / "quic_probe.parquet").to_pylist()
    (handshake,) = pq.read_table(folder / "handshake" / "quic_handshake.parquet").to_pylist()
    assert handshake["sent_at"] - probe["sent_at"] >= INTERVAL_S * 10**9
