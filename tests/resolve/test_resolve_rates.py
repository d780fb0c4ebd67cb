"""The rate of the resolve stage's questions: what the settings say is what the engine does."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from firstflight.settings import Resolve
from firstflight.shard import WHOLE, Shard
from scanner.resolve import native
from tests.resolve.conftest import MakeRun

OWN, FOREIGN = "127.0.0.1#53", "192.0.2.53#53"


@pytest.mark.parametrize(
    ("shard", "settings", "rates"),
    [
        (WHOLE, {}, {OWN: None, FOREIGN: 200}),
        (WHOLE, {"rate": 30}, {OWN: 30, FOREIGN: 30}),
        (WHOLE, {"rate": 0}, {OWN: None, FOREIGN: None}),
        (Shard(1, 4), {}, {OWN: None, FOREIGN: 50}),
        (Shard(1, 4), {"rate": 30}, {OWN: 7.5, FOREIGN: 7.5}),
        (Shard(1, 4), {"rate": 0}, {OWN: None, FOREIGN: None}),
    ],
)
def test_the_engine_keeps_the_rate_of_the_settings(
    tmp_path: Path,
    make_run: MakeRun,
    shard: Shard,
    settings: dict[str, float],
    rates: dict[str, float | None],
) -> None:
    run = make_run(["www.example.test"], resolvers=[OWN, FOREIGN], **settings)
    (tmp_path / "names.txt").write_text("www.example.test\n")
    argv = native.arguments(run.settings, tmp_path, shard)
    done = subprocess.run([*argv, "--dry-run"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for resolver, rate in rates.items():
        address, _, _ = resolver.partition("#")  # the port of DNS is not shown
        (line,) = [line for line in done.stderr.splitlines() if f" {address} would be asked " in line]
        found = re.search(r"at most (\S+) questions per second", line)
        assert (float(found[1]) if found else None) == rate, line


@pytest.mark.parametrize(
    ("resolve", "rates"),
    [
        (Resolve(), (200,)),
        (Resolve(resolver="192.0.2.53"), (200,)),
        (Resolve(resolver="10.0.0.53"), (None,)),
        (Resolve(resolver="10.0.0.53", rate=5), (5,)),
        (Resolve(rate=0), (None,)),
        (Resolve(resolvers=("fd00::53#53", "9.9.9.9#53,weight=2", "198.18.0.53")), (None, 200, None)),
    ],
)
def test_the_settings_know_the_rates(resolve: Resolve, rates: tuple[float | None, ...]) -> None:
    assert resolve.rates() == rates
