"""Runs that download targets and AS data, and the lab's list and table hosts with their real names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from firstflight import settings
from firstflight.run.run import Run
from tests.lab_services.conftest import running

__all__ = ["MakeRun", "running"]

FIXTURES = Path(__file__).parents[1] / "fixtures" / "rib"
RIB_4 = FIXTURES / "rib.20140523.0600_firstMB.bz2"
RIB_6 = FIXTURES / "rib6.20151101.0600_firstMB.bz2"

MakeRun = Callable[..., Run]


@pytest.fixture
def make_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeRun:
    """make_run(targets=..., as_data=..., network=..., resolve=...): a run with these sections (TOML)."""
    monkeypatch.setenv("FIRSTFLIGHT_RUNS", str(tmp_path / "runs"))
    (tmp_path / "names.txt").write_text("example.com\n")
    (tmp_path / "empty.mrt").write_bytes(b"")

    def make(
        targets: str = 'source = "file"\nfile = "names.txt"',
        as_data: str = 'rib = "file"\nfiles = ["empty.mrt"]',
        network: str = "",
        resolve: str = "",
    ) -> Run:
        (tmp_path / "settings.toml").write_text(
            f'[targets]\n{targets}\ncache_dir = "cache/tranco"\n'
            f'[as_data]\n{as_data}\ncache_dir = "cache/routeviews"\n'
            f"[network]\n{network}\n[resolve]\n{resolve}\n"
            '[probe]\nallow_net = ["198.18.0.0/15"]\n[[vantage]]\nname = "here"\n'
        )
        return Run.create(*settings.load(tmp_path / "settings.toml"))

    return make
