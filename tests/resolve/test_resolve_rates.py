"""The rate of the resolve stage's questions: the engine keeps the rate in the settings."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from firstflight.settings import Resolve
from firstflight.shard import WHOLE, Shard
from firstflight.system import binaries
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
    for resolver, rate in rates.items():
        assert rate_to(resolver, native.arguments(run.settings, tmp_path, shard), tmp_path) == rate


STUB = "127.0.0.53"


@pytest.mark.parametrize(
    ("shard", "settings", "rate"),
    [(WHOLE, {}, 200), (Shard(1, 4), {}, 50), (WHOLE, {"rate": 30}, 30), (WHOLE, {"rate": 0}, None)],
)
def test_an_unnamed_stub_has_the_limit_of_others(
    tmp_path: Path, make_run: MakeRun, shard: Shard, settings: dict[str, float], rate: float | None
) -> None:
    """With systemd-resolved's /etc/resolv.conf, stage and engine use the rate for foreign resolvers."""
    run = make_run(["www.example.test"], **settings)
    assert run.settings.resolve.rates() == (settings.get("rate", 200) or None,)
    resolv_conf = tmp_path / "resolv.conf"
    resolv_conf.write_text(f"nameserver {STUB}\n")
    stage = f"""
import json, sys
from pathlib import Path
from firstflight.run.run import Run
from firstflight.shard import Shard
from scanner.resolve import native
print(json.dumps(native.arguments(Run.open(sys.argv[1]).settings, Path(sys.argv[2]), {shard!r})))
"""
    argv = [sys.executable, "-c", stage, str(run.path), str(tmp_path)]
    done = subprocess.run(with_resolv_conf(resolv_conf, argv), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert rate_to(STUB, json.loads(done.stdout), tmp_path) == rate
    engine = [str(binaries.find("firstflight-resolve")), "--names", str(tmp_path / "names.txt")]
    engine += [] if shard.is_whole else ["--shards", str(shard.count)]
    engine += [f"--rate={value}" for value in settings.values()]
    assert rate_to(STUB, with_resolv_conf(resolv_conf, engine), tmp_path) == rate


def with_resolv_conf(path: Path, argv: list[str]) -> list[str]:
    """Return the argument list that runs `argv` in a mount namespace with `path` as /etc/resolv.conf."""
    place = os.path.realpath("/etc/resolv.conf")
    return [
        "unshare",
        "--mount",
        "sh",
        "-c",
        'mount --bind "$0" "$1" && shift && exec "$@"',
        str(path),
        place,
        *argv,
    ]


def rate_to(resolver: str, argv: list[str], folder: Path) -> float | None:
    """Return the rate that a dry run of the engine prints for a resolver, or null for no limit."""
    (folder / "names.txt").write_text("www.example.test\n")
    done = subprocess.run([*argv, "--dry-run"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    address, _, _ = resolver.partition("#")  # the port of DNS is not shown
    (line,) = [line for line in done.stderr.splitlines() if f" {address} would be queried " in line]
    found = re.search(r"at most (\S+) questions per second", line)
    return float(found[1]) if found else None


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
