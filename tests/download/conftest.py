"""Fixtures for this folder's tests: a world with real servers and a link with a delay of 20 ms."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from firstflight import settings
from firstflight.run.run import Run
from tests.campaign_loopback.world import mrt_table
from tests.download.runs import FILES, SETS
from tests.download.world import DownloadWorld


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DownloadWorld]:
    """Return a vantage point and a server, up."""
    folder: Path = tmp_path_factory.mktemp("world")
    folder.chmod(0o755)
    with DownloadWorld(folder) as raised:
        yield raised


@pytest.fixture
def run(world: DownloadWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Run]:
    """Return a function that makes a run with a prepared routing table; it takes further settings.

    `files`: the list of files; by default FILES. Without a list, the run downloads what its crawl found.
    """
    monkeypatch.setenv("FIRSTFLIGHT_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("FIRSTFLIGHT_STORE", f"chdb:{tmp_path / 'store'}")
    (tmp_path / "files.csv").write_text("url,ip\n" + "".join(f"{world.url(p)},{ip}\n" for p, ip in FILES))
    (tmp_path / "names.txt").write_text("a.test\n")
    (tmp_path / "rib.mrt").write_bytes(mrt_table({"198.18.9.0/24": 13335}))

    def make(more: str = "", files: str = 'targets = "files.csv"', sets: Sequence[str] = SETS) -> Run:
        (tmp_path / "c.toml").write_text(f"""
[targets]
source = "file"
file = "names.txt"
[as_data]
rib = "file"
files = ["rib.mrt"]
[probe]
allow_net = ["198.18.0.0/15", "2001:db8::/32"]
[download]
enabled = true
sets = {json.dumps(sets)}
{files}
roots = "{world.roots}"
pause_s = 0.05
{more}
[[vantage]]
name = "here"
""")
        made = Run.create(*settings.load(tmp_path / "c.toml"))
        done = world.run("stage", "as_data", "--run", made.id)
        assert done.returncode == 0, done.stderr
        return made

    return make
