"""The scan stage with the real ZMap: answers become targets, and lists are in force while it runs."""

from __future__ import annotations

import ipaddress
import subprocess
import sys
import time
from collections import Counter
from datetime import date as Date
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from firstflight import settings
from firstflight.egress import current
from firstflight.egress.permitted import Permitted
from firstflight.errors import FirstflightError, InputError, Interrupted, UsageError
from firstflight.run.run import Run
from firstflight.shard import Shard, all_of
from orchestration.airflow.due import is_scan_due
from orchestration.checks import machine
from orchestration.local import preview
from scanner.driver import choose
from scanner.external.lists_in_force import ListsChanged, ListsInForce
from scanner.external.stage import sweep_of
from schemas import records
from store import open_store
from tests.campaign_loopback.world import mrt_table
from tests.external.sweep import ECHO, QUIC, SILENT, TREE, swept
from tests.store.rows import answer, write
from tests.waiting import until

HERE = ("--vantage", "here", "--repetition", "1", "--here")
CONFIG = """
[targets]
source = "file"
file = "names.txt"
[as_data]
rib = "file"
files = ["rib.mrt"]
[probe]
allow_net = ["198.18.0.0/15"]
families = [4]
timeout_s = 10
blocklist = ["blocked.txt"]
optout = ["optout.txt"]
[handshake]
enabled = true
share = 1
[scan]
enabled = true
networks = ["198.18.48.0/29"]
ownership = "the lab is ours"
cooldown_s = 10
[capture]
enabled = false
[[vantage]]
name = "here"
"""
ENABLED = ("scan.enabled=true", "scan.networks=['198.18.48.0/24']", "scan.ownership=ours")
LAB = "probe.allow_net=['198.18.0.0/15']"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with settings, the files that they name, and runs."""
    monkeypatch.setenv("FIRSTFLIGHT_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("FIRSTFLIGHT_STORE", f"chdb:{tmp_path / 'store'}")
    (tmp_path / "names.txt").write_text("sweep.test\n")
    (tmp_path / "blocked.txt").write_text(f"{SILENT}\n")
    (tmp_path / "optout.txt").write_text("198.18.48.5-7\n")
    (tmp_path / "rib.mrt").write_bytes(mrt_table({"198.18.48.0/24": 13335}))
    (tmp_path / "c.toml").write_text(CONFIG)
    return tmp_path


def created(folder: Path, *overrides: str) -> Run:
    return Run.create(*settings.load(folder / "c.toml", overrides))


def until_read(permitted: Permitted, address: str) -> None:
    """Wait until an address is on the lists."""

    def is_listed() -> bool:
        permitted.look()
        return permitted.is_listed(address)

    until(is_listed, f"{address} on a list")


def test_addresses_that_answer_are_records_and_targets(folder: Path) -> None:
    run = created(folder)
    key = run.key("here", 1)
    of_key: dict[str, Any] = {**key.columns(), "list_id": "list"}
    named = answer("sweep.test", "A", address=QUIC[0], answer_rank=0, **of_key)
    write(run.layout.dns_answer(key), [named], "dns_answer")
    at_key = ("scan", "probe", "handshake", "--run", run.id, *HERE)
    happened = swept(folder, "stage", "as_data", "--run", run.id, "+", "stage", *at_key)
    assert happened["status"] == 0, happened
    table = pq.read_table(run.layout.scan_answer(key))
    assert table.schema.equals(records.load("scan_answer").arrow_schema())
    rows = table.to_pylist()
    assert sorted(row["ip"] for row in rows) == list(QUIC)
    for row in rows:
        assert (row["asn"], row["cdn"], row["port"], row["ttl"]) == (13335, "Cloudflare", 443, 64)
        assert "0x00000001" in row["version_list"].split(",")
    report = run.report("scan", key)
    assert report is not None
    assert report.counts == {"answered": 2}
    # The limit per prefix is below the rate of the scan.
    assert report.facts == {"addresses": 8, "blocked": 4, "rate": 10}
    # Listed addresses get no datagram of any stage; the host that echoes gets one.
    assert {text.rpartition(".")[0] for text in happened["datagrams"]} == {"198.18.48.0", *QUIC, ECHO}
    assert happened["datagrams"][f"{ECHO}.443"] == 1
    probes = pq.read_table(run.layout.quic_probe(key)).to_pylist()
    targets = {("sweep.test", QUIC[0]): ("list", 0), ("", QUIC[0]): (None, None), ("", QUIC[1]): (None, None)}
    # Tables by name exclude rows without `address_rank`.
    assert {(row["domain"], row["ip"]): (row["list_id"], row["address_rank"]) for row in probes} == targets
    assert all(row["ack_us"] is not None for row in probes) and len(probes) == 3, probes
    handshakes = pq.read_table(run.layout.handshakes(key)).to_pylist()
    assert Counter((row["domain"], row["ip"]) for row in handshakes) == Counter(targets.keys())
    subprocess.run([sys.executable, "-m", "cli", "load", run.id], cwd=TREE, check=True, capture_output=True)
    with open_store() as store:
        found = store.rows(f"SELECT ip, version_list FROM {store.dialect.database}.scan_answer ORDER BY ip")
    assert [row["ip"] for row in found] == list(QUIC)


def test_an_address_added_to_a_list_stops_zmap(folder: Path) -> None:
    run = created(folder, "scan.networks=['198.18.48.0/24']", "scan.rate=1")
    optout = ("append", str(folder / "optout.txt"), "198.18.48.128/25")
    at_key = ("stage", "scan", "--run", run.id, *HERE)
    happened = swept(folder, "stage", "as_data", "--run", run.id, "+", *optout, "+", *at_key)
    assert (happened["status"], len(happened["stderr"].splitlines())) == (1, 1), happened
    assert "a network that it scans was added to a list" in happened["stderr"]
    assert 0 < sum(happened["datagrams"].values()) < 200, "at 1 per second, ZMap ran to the end"
    assert not run.layout.scan_answer(run.key("here", 1)).exists()


def test_names_are_contacted_if_the_scan_failed(folder: Path) -> None:
    run = created(folder)
    key = run.key("here", 1)
    of_key: dict[str, Any] = {**key.columns(), "list_id": "list"}
    named = answer("sweep.test", "A", address=QUIC[0], answer_rank=0, **of_key)
    write(run.layout.dns_answer(key), [named], "dns_answer")
    with pytest.raises(InputError, match="run the scan stage first"):
        choose.resolved(run, key)
    with run.stage("scan", key), pytest.raises(InputError, match="run the scan stage first"):
        choose.resolved(run, key)
    with pytest.raises(InputError, match="run the scan stage first"):  # done, and its file is lost
        choose.resolved(run, key)
    for error, said in ((UsageError("no ZMap"), "no ZMap"), (Interrupted("stopped"), "it was interrupted")):
        with pytest.raises(type(error)), run.stage("scan", key):
            raise error
        assert choose.resolved(run, key)["domain"].to_pylist() == ["sweep.test"]
        assert str(choose.without_scan(run, key)).endswith(f"the scan stage failed: {said}")


def test_a_stage_waits_for_the_zmap_of_a_killed_attempt(folder: Path) -> None:
    run = created(folder, "scan.rate=1", "scan.cooldown_s=1")
    scan = ("stage", "scan", "--run", run.id, *HERE)
    happened = swept(folder, "stage", "as_data", "--run", run.id, "+", "orphan", "+", *scan, "+", *scan)
    assert happened["status"] == 0, happened
    assert "an earlier program still writes into" in happened["stderr"], "the ZMap did not hold the lock"
    counts = Counter(happened["datagrams"].values())
    # The order of addresses is the same, and the ZMap of the killed stage sends nothing when it continues.
    assert counts[1] >= 2 and counts[1] + counts[2] == 4, happened


def test_shards_divide_the_addresses(folder: Path) -> None:
    (folder / "c.toml").write_text(f"{CONFIG}shards = 2\n")
    run = created(folder, "scan.cooldown_s=1")
    shards = [("stage", "scan", "--run", run.id, *HERE, "--shard", f"{index}/2") for index in (0, 1)]
    happened = swept(folder, "stage", "as_data", "--run", run.id, "+", *shards[0], "+", *shards[1])
    assert happened["status"] == 0, happened
    assert happened["datagrams"] == {f"{address}.443": 1 for address in ("198.18.48.0", *QUIC, ECHO)}
    facts = [report.facts for shard in all_of(2) if (report := run.report("scan", run.key("here", 1, shard)))]
    # The second shard has no address that the lists permit.
    assert [(shard["addresses"], shard["blocked"]) for shard in facts] == [(4, 0), (4, 4)]


def test_limits_and_ports_of_a_key(folder: Path) -> None:
    (folder / "c.toml").write_text(f'{CONFIG}sources = ["2001:db8::1", "198.18.0.1"]\nshards = 2\n')
    with (folder / "c.toml").open("a") as file:
        file.write('[[vantage]]\nname = "there"\n')
    run = created(folder, "probe.ports=50000-50063", "scan.rate=50")
    whole, sharded = (sweep_of(run, run.key("there", 1)), sweep_of(run, run.key("here", 1, Shard(1, 2))))
    assert (whole.rate, whole.per_prefix_rate, whole.ports) == (50, 5, "50000-50063")
    assert (sharded.rate, sharded.per_prefix_rate, sharded.ports) == (25, 2.5, "50032-50063")
    assert (whole.source, sharded.source) == (None, "198.18.0.1")
    assert sharded.seed != whole.seed
    first = ipaddress.IPv4Address("198.18.48.4")
    assert sharded.spans() == [(int(first), int(first) + 3)]
    alone = created(folder, "campaign.shared_limits=false")
    assert sweep_of(alone, alone.key("there", 1)).per_prefix_rate == 10


def test_lists_are_in_force_while_zmap_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    followed, optout = tmp_path / "followed", tmp_path / "optout"
    followed.touch()
    optout.touch()
    monkeypatch.setenv(current.VARIABLE, f"{current.FOLLOWED}{followed}")
    looked = iter((None, None, Interrupted("stopped")))

    def look() -> None:
        if (error := next(looked, None)) is not None:
            raise error

    span = (0x0A000000, 0x0A0000FF)
    permitted = Permitted((), [optout], ["10.0.0.0/8"])
    with pytest.raises(Interrupted):
        ListsInForce(permitted, [span], look)  # waits for the confirmation
    current.confirmed_file(followed).write_text(current.confirmation())
    in_force = ListsInForce(permitted, [span], look)
    in_force.check()
    optout.write_text("10.1.0.0/16\n")
    until_read(permitted, "10.1.0.1")
    time.sleep(current.LOOK_S)  # a check looks at most this often
    in_force.check()  # the entry is not in the networks
    optout.write_text("10.1.0.0/16\n10.0.0.9\n")
    until_read(permitted, "10.0.0.9")
    time.sleep(current.LOOK_S)
    with pytest.raises(ListsChanged, match="was added to a list"):
        in_force.check()
    later = ListsInForce(permitted, [span], look)
    current.confirmed_file(followed).unlink()
    until(lambda: permitted.look() == current.Trust.NONE, "no trust")
    with pytest.raises(ListsChanged, match="no longer confirmed"):
        later.check()


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (("scan.enabled=true",), "`enabled` needs `networks`"),
        (ENABLED[:2], "`networks` needs `ownership`"),
        ((*ENABLED, "scan.networks=['2001:db8::/64']"), "ZMap only scans IPv4"),
        ((*ENABLED, "scan.networks=['0.0.0.0/0']"), "larger than /8"),
        ((*ENABLED, "scan.networks=['198.18.48.1/24']"), "has host bits set"),
        ((*ENABLED, "probe.families=[6]"), "scan.enabled needs IPv4"),
        ((*ENABLED, "probe.allow_net=['10.0.0.0/8']"), "campaign.contact is empty, but scan.networks has"),
        ((*ENABLED, "probe.allow_net=[]", "campaign.contact=me"), "198.18.48.0 is special-purpose"),
        (
            (*ENABLED, LAB, "scan.networks=['169.254.169.0/24']", "campaign.contact=me"),
            "169.254.169.0 is special",
        ),
        ((*ENABLED, "scan.rate=0.5"), "scan.rate"),
        (
            (*ENABLED, LAB, "probe.per_prefix_rate=0.9"),
            "permit 0.9 packets a second, but ZMap sends at least 1",
        ),
    ],
)
def test_networks_that_must_not_be_scanned_are_refused(
    folder: Path, overrides: tuple[str, ...], says: str
) -> None:
    (folder / "c.toml").write_text(CONFIG.partition("[scan]")[0] + '[[vantage]]\nname = "here"\n')
    with pytest.raises(FirstflightError) as refused:
        list(preview.describe(settings.load(folder / "c.toml", overrides)[0]))
    assert says in str(refused.value) and refused.value.exit_status == 2


def test_a_dry_run_counts_each_address(folder: Path) -> None:
    lines = list(preview.describe(settings.load(folder / "c.toml", ["scan.networks=['198.18.48.0/24']"])[0]))
    # 256 datagrams of 1228 bytes, 10 a second (the limit per /24), and the wait for late answers.
    assert "  scan: 256 packets, 314 kB sent, 943 kB received, 0:00:36" in lines
    assert any(line.startswith("here: ") and "a scan at 10 per second" in line for line in lines)
    # Each address may answer, and is then probed without a name.
    assert any("at most 257 probes" in line for line in lines)


def test_the_check_of_a_machine(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    enabled = settings.load(folder / "c.toml")[0]
    here = enabled.vantage[0]
    finding = machine.zmap(enabled, here)
    assert finding is not None and finding.text.endswith("/zmap, at 10 datagrams per second")
    assert machine.zmap(settings.load(folder / "c.toml", ["scan.enabled=false"])[0], here) is None
    slow = here.model_copy(update={"shards": 11})
    assert "ZMap sends at least 1" in str(machine.zmap(enabled.model_copy(update={"vantage": (slow,)}), slow))
    special = settings.load(folder / "c.toml", ["scan.networks=['10.0.0.0/24']", "campaign.contact=me"])[0]
    assert "10.0.0.0 is special-purpose" in str(machine.zmap(special, here))
    monkeypatch.setenv("PATH", str(folder))
    assert "ZMap is not in PATH" in str(machine.zmap(enabled, here))


@pytest.mark.parametrize(
    ("when", "days"), [("always", [1, 2, 3, 4, 5, 6, 7]), ("weekly", [1]), ("never", [])]
)
def test_a_site_scans_weekly(when: str, days: list[int]) -> None:
    # 2026-11-23 is a Monday.
    week = [Date(2026, 11, 22 + number) for number in range(1, 8)]
    assert [day.isoweekday() for day in week if is_scan_due(when, day)] == days
