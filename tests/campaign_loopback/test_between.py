"""Two engines at a vantage point, one after the other: a limit below one a second holds between them."""

from __future__ import annotations

from tests.engines import record_rows

from .world import CampaignWorld

INTERVAL_S = 5


def test_a_handshake_follows_a_probe_no_sooner_than_the_limit_permits(world: CampaignWorld) -> None:
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
    (probe,) = record_rows.read(folder / "probe" / "quic_probe.parquet")
    (handshake,) = record_rows.read(folder / "handshake" / "quic_handshake.parquet")
    assert handshake["sent_at"] - probe["sent_at"] >= INTERVAL_S * 10**9
