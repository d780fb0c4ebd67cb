"""Every command that can send, with the lab's settings but outside the lab: no packet leaves."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firstflight import settings
from firstflight.egress import lab
from firstflight.run.run import Run
from lab.system import namespaces
from schemas import records
from tests.attack.sending.outside import Outside, udp_to
from tests.campaign_loopback.world import mrt_table

ROOT = Path(__file__).parents[3]
FIRSTFLIGHT = [sys.executable, "-P", "-m", "cli"]
HOSTS = dict.fromkeys(("tranco-list.eu", "archive.routeviews.org", "web.lab.test"), "198.18.0.80")
REFUSED = "is an address of the lab, and this is not the lab"

CONFIG = """
[campaign]
contact = "noc@example.org"
[targets]
source = "file"
file = "names.csv"
[as_data]
rib = "file"
files = ["rib.mrt"]
[resolve]
resolver = "198.18.0.53"
timeout_s = 0.2
attempts = 1
[probe]
timeout_s = 0.2
attempts = 1
allow_net = ["198.18.0.0/15", "2001:db8::/32"]
[watch]
period_s = 3
minute_s = 1
[capture]
enabled = false
[[vantage]]
name = "here"
"""
FETCHED = """
[campaign]
contact = "noc@example.org"
[targets]
source = "tranco"
date = "2026-11-19"
top = 10
[as_data]
rib = "routeviews"
date = "2026-11-19"
[[vantage]]
name = "here"
"""


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outside]:
    world = Outside(tmp_path_factory.mktemp("outside"), "198.18.0.53", HOSTS)
    yield world
    world.end()


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with settings and the files that they name, for runs and store."""
    monkeypatch.setenv("FIRSTFLIGHT_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("FIRSTFLIGHT_STORE", f"chdb:{tmp_path / 'store'}")
    (tmp_path / "names.csv").write_text("a.lab.test\n")
    (tmp_path / "rib.mrt").write_bytes(mrt_table({"198.18.16.0/20": 13335}))
    (tmp_path / "c.toml").write_text(CONFIG)
    (tmp_path / "fetched.toml").write_text(FETCHED)
    return tmp_path


def new_run(folder: Path, config: str = "c.toml", more: str = "") -> Run:
    path = folder / config
    path.write_text(path.read_text() + more)
    in_force, text = settings.load(path)
    return Run.create(in_force, text)


def resolved(run: Run) -> Run:
    """A run with a target and answers with addresses of the lab, as if the resolve stage were done."""
    run.layout.targets.parent.mkdir(parents=True, exist_ok=True)
    answers: list[dict[str, Any]] = [
        {
            "run": run.id,
            "vantage": "here",
            "repetition": 1,
            "domain": "a.lab.test",
            "list_id": "l",
            "rank": 1,
            "qtype": qtype,
            "status": "NOERROR",
            "address": address,
            "answer_rank": 0,
            "resolver": "198.18.0.53",
        }
        for qtype, address in (("A", "198.18.16.1"), ("AAAA", "2001:db8:16::1"))
    ]
    path = run.layout.dns_answer(run.key("here", 1))
    path.parent.mkdir(parents=True, exist_ok=True)
    schema = pa.schema([field.with_nullable(True) for field in records.load("dns_answer").arrow_schema()])
    pq.write_table(pa.Table.from_pylist(answers, schema=schema), path)
    return run


def assert_refused(outside: Outside, argv: list[str], message: str = REFUSED, status: int | None = 2) -> None:
    """Run a command there; it must refuse with one sentence, and no packet may leave."""
    before = outside.packets()
    done = outside.run(argv)
    assert outside.packets() == before, done.stderr
    assert message in done.stderr, done.stderr
    if status is not None:
        assert (done.returncode, done.stderr.strip().count("\n")) == (status, 0), done.stderr
    assert "Traceback" not in done.stderr


def test_sent_packets_are_captured(outside: Outside) -> None:
    for address in ("198.18.0.9", "2001:db8::9"):
        before = outside.packets()
        assert outside.run(udp_to(address, 9)).returncode == 0
        (packet,) = outside.packets()[len(before) :]
        assert f" > {address}.9: UDP" in packet


PROBES = {
    "the README's": ["--targets", str(ROOT / "examples/lab-targets.csv"), "--allow-net", "198.18.0.0/15"],
    "with a contact": ["--targets", "v4.csv", "--allow-net", "198.18.0.0/15", "--contact", "me@example.org"],
    "over IPv6": ["--targets", "v6.csv", "--allow-net", "2001:db8::/32"],
    "from a configured source address": [
        *("--targets", "v4.csv", "--allow-net", "198.18.16.0/24", "--source", "192.0.2.1"),
    ],
    "a dry run": ["--targets", "v4.csv", "--allow-net", "198.18.0.0/15", "--dry-run"],
}


@pytest.mark.parametrize("options", PROBES.values(), ids=PROBES.keys())
def test_probe(outside: Outside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    Path("v4.csv").write_text("ip,domain,port\n198.18.16.1,a.lab.test,443\n")
    Path("v6.csv").write_text("ip,domain,port\n2001:db8:16::1,a.lab.test,443\n")
    command = [sys.executable, "-m", "cli", "probe", *options, "--format", "jsonl", "--timeout", "0.2"]
    assert_refused(outside, command)
    if "--dry-run" in options:
        return
    outside.mark()
    try:
        before = outside.packets()
        done = outside.run(command)
        assert done.returncode == 0, done.stderr
        assert len(outside.packets()) > len(before), "in the lab the same command sends"
    finally:
        outside.unmark()


def test_where_the_route_is_the_loopback_no_mark_is_needed(outside: Outside, tmp_path: Path) -> None:
    targets = tmp_path / "t.csv"
    targets.write_text("ip,domain,port\n198.18.77.1,a.lab.test,9\n198.19.77.1,b.lab.test,9\n")
    add = ["sh", "-c", "ip address add 198.18.77.1/32 dev lo && ip route add 198.19.77.0/24 dev lo"]
    assert outside.run(add).returncode == 0
    before = outside.packets()
    options = ["--targets", str(targets), "--allow-net", "198.18.0.0/15", "--timeout", "0.2"]
    done = outside.run([*FIRSTFLIGHT, "probe", *options])
    assert done.returncode == 0, done.stderr
    assert done.stdout.count('"bytes_sent":1252') == 2, done.stdout
    assert outside.packets() == before


def with_targets(outside: Outside, runs: Path) -> Run:
    """A new run with targets and AS data from files."""
    run = new_run(runs)
    for stage in ("targets", "as_data"):
        done = outside.run([*FIRSTFLIGHT, "stage", stage, "--run", str(run.path), "--here"])
        assert done.returncode == 0, done.stderr
    return run


def test_stage_resolve(outside: Outside, runs: Path) -> None:
    run = with_targets(outside, runs)
    place = ["--run", str(run.path), "--vantage", "here", "--repetition", "2", "--here"]
    assert_refused(outside, [*FIRSTFLIGHT, "stage", "resolve", *place])


def test_stage_probe(outside: Outside, runs: Path) -> None:
    run = with_targets(outside, runs)
    resolved(run)
    place = ["--run", str(run.path), "--vantage", "here", "--repetition", "1", "--here"]
    assert_refused(outside, [*FIRSTFLIGHT, "stage", "probe", *place])


def test_stage_watch(outside: Outside, runs: Path) -> None:
    run = with_targets(outside, runs)
    place = ["--run", str(run.path), "--vantage", "here", "--repetition", "1", "--here"]
    assert_refused(outside, [*FIRSTFLIGHT, "stage", "watch", *place])


@pytest.mark.parametrize("stage", ["targets", "as_data"])
def test_stages_that_fetch(outside: Outside, runs: Path, stage: str) -> None:
    """/etc/hosts leads to the lab's web host there."""
    run = new_run(runs, "fetched.toml")
    assert_refused(outside, [*FIRSTFLIGHT, "stage", stage, "--run", str(run.path), "--here"])


def test_a_name_server_of_the_lab_is_not_asked(outside: Outside, runs: Path) -> None:
    reference = '[clock]\nreference = "https://nobody.lab.test/"\n'
    run = new_run(runs, more=reference)
    place = ["--run", str(run.path), "--vantage", "here", "--repetition", "1", "--here"]
    assert_refused(outside, [*FIRSTFLIGHT, "stage", "resolve", *place], status=None)


@pytest.mark.parametrize("command", [["campaign", "run"], ["watch"]])
def test_a_campaign_and_a_watch(outside: Outside, runs: Path, command: list[str]) -> None:
    assert_refused(outside, [*FIRSTFLIGHT, *command, "--config", str(runs / "c.toml")], status=None)


@pytest.mark.parametrize("command", [["sql", "SELECT 1"], ["db", "migrate"], ["runs"]])
def test_a_store_of_the_lab(
    outside: Outside, runs: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.setenv("FIRSTFLIGHT_STORE", "clickhouse://u@198.18.0.10:9000/firstflight")
    new_run(runs)
    before = outside.packets()
    done = outside.run([*FIRSTFLIGHT, *command])
    assert outside.packets() == before
    if command != ["runs"]:
        assert (done.returncode, REFUSED in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize("stage", ["resolve", "probe", "watch", "targets"])
def test_here_is_refused_on_another_host(outside: Outside, runs: Path, stage: str) -> None:
    behind = 'command = ["firstflight", "lab", "exec", "--state", "var/lab", "{}"]\n'
    run = new_run(runs, more=behind.format("hamburg") + "[centre]\n" + behind.format("centre"))
    place = ["--run", str(run.path), "--vantage", "here", "--repetition", "1", "--here"]
    assert_refused(outside, [*FIRSTFLIGHT, "stage", stage, *place], message="but this is another host")


def test_the_mark_is_one() -> None:
    assert lab.MARK == namespaces.MARK
