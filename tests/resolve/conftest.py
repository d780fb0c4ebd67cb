"""One BIND for all tests of this folder, and runs for the resolve stage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from firstflight import settings
from firstflight.run.run import Run
from tests.resolve.named import Named


@pytest.fixture(scope="session")
def named(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Named]:
    server = Named(tmp_path_factory.mktemp("named"))
    server.start()
    yield server
    server.stop()


MakeRun = Callable[..., Run]


@pytest.fixture
def make_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeRun:
    """make_run(names, **resolve settings): a run with the list `names` and the vantage point `here`."""
    monkeypatch.setenv("FIRSTFLIGHT_RUNS", str(tmp_path / "runs"))

    def make(names: list[str], **resolve: object) -> Run:
        (tmp_path / "names.txt").write_text("\n".join(names) + "\n")
        (tmp_path / "rib.mrt").write_bytes(b"")
        lines = "\n".join(f"{key} = {value!r}" for key, value in resolve.items())
        (tmp_path / "settings.toml").write_text(
            f"""[targets]
source = "file"
file = "names.txt"
[as_data]
rib = "file"
files = ["rib.mrt"]
[resolve]
{lines}
[probe]
allow_net = ["198.18.0.0/15"]
[[vantage]]
name = "here"
"""
        )
        return Run.create(*settings.load(tmp_path / "settings.toml"))

    return make
